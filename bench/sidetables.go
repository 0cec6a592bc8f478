package bench

import "fmt"

// tabulate makes a table for each origin and mode.
func (s *sideBySide) tabulate(cells []cell, results map[cell][][]caddySample) {
	var tables []*Table
	of := map[string]*Table{}
	for _, c := range cells {
		key := fmt.Sprint(c.origin, c.fresh)
		t := of[key]
		if t == nil {
			t = sideTable(c)
			of[key] = t
			tables = append(tables, t)
		}
		t.add(sideRow(c, results[c])...)
	}
	for _, t := range tables {
		s.report.Tables = append(s.report.Tables, *t)
	}
	names := make([]string, len(arms))
	cpu := make([][]float64, len(arms))
	p50 := make([][]float64, len(arms))
	for i, arm := range arms {
		names[i] = arm.name
		for _, c := range cells {
			cpu[i] = append(cpu[i], each(results[c][i], func(s caddySample) float64 { return s.cpu })...)
			p50[i] = append(p50[i], each(results[c][i], func(s caddySample) float64 { return s.p50 })...)
		}
	}
	s.report.suspectTwins("CPU", names, cpu)
	s.report.suspectTwins("p50", names, p50)
}

func sideTable(c cell) *Table {
	t := &Table{
		Title: c.origin + " origin, connections kept",
		Columns: []string{
			"protocol, clients, size", "http CPU µs", "tunnel CPU µs", "CPU ratio", "null", "http req/s", "tunnel req/s", "req/s ratio",
			"http p50 ms", "tunnel p50 ms", "http p99 ms", "tunnel p99 ms",
		},
		Note: "CPU is that of the Caddy process for each request; ratios are tunnel / http, the null is http / http in another process.",
	}
	if c.fresh {
		t.Title = c.origin + " origin, a fresh connection for each request"
		if c.origin == "testbed" {
			t.Columns = append(t.Columns, "http resumed", "tunnel resumed")
		}
	}
	return t
}

func sideRow(c cell, arms [][]caddySample) []Cell {
	http, tunnel, again := arms[0], arms[1], arms[2]
	cpu := func(s caddySample) float64 { return s.cpu }
	throughput := func(s caddySample) float64 { return s.throughput }
	p50 := func(s caddySample) float64 { return s.p50 }
	p99 := func(s caddySample) float64 { return s.p99 }
	row := []Cell{
		label("HTTP/%s, %d, %s", c.proto, c.clients, sizeName(c.size)),
		figure(each(http, cpu)), figure(each(tunnel, cpu)),
		ratio(ratios(each(tunnel, cpu), each(http, cpu))), ratio(ratios(each(again, cpu), each(http, cpu))),
		figure(each(http, throughput)), figure(each(tunnel, throughput)), ratio(ratios(each(tunnel, throughput), each(http, throughput))),
		figure(each(http, p50)), figure(each(tunnel, p50)), figure(each(http, p99)), figure(each(tunnel, p99)),
	}
	if c.fresh && c.origin == "testbed" {
		resumed := func(s caddySample) float64 { return s.resumed }
		row = append(row, label("%.0f %%", 100*median(each(http, resumed))), label("%.0f %%", 100*median(each(tunnel, resumed))))
	}
	return row
}

// each takes one figure out of each sample.
func each[S any](samples []S, figure func(S) float64) []float64 {
	out := make([]float64, len(samples))
	for i, s := range samples {
		out[i] = figure(s)
	}
	return out
}
