package bench

import "slices"

// tabulate writes the way's tables: times, first requests, throughput, what a request takes of memory and sockets, and
// the ratios that matter.
func (l *ladder) tabulate(r *Report) {
	last := l.sizes[len(l.sizes)-1]
	r.Tables = append(r.Tables,
		l.bySize(l.way+": time, µs for each request on a warm connection", func(s *step, _ int64) []float64 { return each(s.warm, wallOf) }),
		l.bySize(l.way+": CPU of this process, µs for each request on a warm connection", func(s *step, _ int64) []float64 { return each(s.warm, cpuOf) }),
		l.bySize(l.way+": first request on a new connection, µs from the dial to the last byte", func(s *step, _ int64) []float64 { return s.firsts }),
		l.bySize(l.way+": MB/s on a warm connection", func(s *step, size int64) []float64 {
			return each(s.warm, func(c cost) float64 { return float64(size) / c.wall })
		}),
		l.takes(l.sizes[0]), l.takes(last), l.compare(l.sizes[0], last),
	)
}

// bySize is a table of one figure: a row for each rung, a column for each size, and for times what each MiB takes: the
// difference between the two largest sizes.
func (l *ladder) bySize(title string, figures func(*step, int64) []float64) Table {
	t := Table{Title: title, Columns: []string{"rung"}}
	for _, size := range l.sizes {
		t.Columns = append(t.Columns, sizeName(size))
	}
	n := len(l.sizes)
	differenced := n > 1 && l.sizes[n-1]-l.sizes[n-2] >= mib && title != l.way+": MB/s on a warm connection"
	if differenced {
		t.Columns = append(t.Columns, "each MiB")
	}
	for _, rung := range l.rungs {
		row := []Cell{label("%s", rung.name)}
		for _, size := range l.sizes {
			row = append(row, figure(figures(l.steps[rung.name][size], size)))
		}
		if differenced {
			low, high := l.sizes[n-2], l.sizes[n-1]
			slope := median(figures(l.steps[rung.name][high], high)) - median(figures(l.steps[rung.name][low], low))
			row = append(row, label("%s", digits(slope*mib/float64(high-low))))
		}
		t.add(row...)
	}
	return t
}

// takes is what a request of one size takes of memory and sockets.
func (l *ladder) takes(size int64) Table {
	t := Table{
		Title:   l.way + ": what a request of " + sizeName(size) + " takes",
		Columns: []string{"rung", "allocations", "bytes allocated", "socket reads", "bytes a read", "socket writes"},
	}
	for _, rung := range l.rungs {
		warm := l.steps[rung.name][size].warm
		t.add(label("%s", rung.name), figure(each(warm, allocsOf)), figure(each(warm, bytesOf)), figure(each(warm, readsOf)),
			figure(each(warm, fillOf)), figure(each(warm, writesOf)))
	}
	return t
}

// compare is the ratios that matter, round by round.
func (l *ladder) compare(small, large int64) Table {
	t := Table{Title: l.way + ": ratios", Columns: []string{"what", "time", "CPU", "allocations"}}
	for _, c := range []struct {
		over, under string
		size        int64
	}{
		{rungH1, rungNet1, small}, {rungPool, rungNet1, small}, {"h2c, pool", "net/http, HTTP/2", small}, {rungH1Again, rungH1, small},
		{rungH1, rungTLS, large}, {rungPool, rungNet1, large}, {"h2c, pool", "net/http, HTTP/2", large}, {rungH1Again, rungH1, large},
	} {
		over, under := l.steps[c.over][c.size].warm, l.steps[c.under][c.size].warm
		allocs := label("-") // raw reads allocate nothing
		if !slices.Contains(each(under, allocsOf), 0) && c.under != rungTLS {
			allocs = ratio(ratios(each(over, allocsOf), each(under, allocsOf)))
		}
		t.add(label("%s / %s, %s", c.over, c.under, sizeName(c.size)), ratio(ratios(each(over, wallOf), each(under, wallOf))),
			ratio(ratios(each(over, cpuOf), each(under, cpuOf))), allocs)
	}
	return t
}
