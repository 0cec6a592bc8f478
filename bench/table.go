package bench

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Table is what a part measured. Its first column names the row.
type Table struct {
	Title   string   `json:"title"`
	Note    string   `json:"note,omitempty"` // what to know when reading it
	Columns []string `json:"columns"`
	Rows    [][]Cell `json:"rows"`
}

// A Cell is one entry of a table: its text, and the samples that it is the median of.
type Cell struct {
	Text    string    `json:"text"`
	Samples []float64 `json:"samples,omitempty"` // in the order in which they were measured
}

func label(format string, args ...any) Cell { return Cell{Text: fmt.Sprintf(format, args...)} }

// figure is the median of samples with three significant digits.
func figure(samples []float64) Cell {
	return Cell{digits(median(samples)), rounded(samples)}
}

// ratio is the median of samples with the lowest and the highest.
func ratio(samples []float64) Cell {
	if len(samples) == 0 {
		return Cell{Text: "-"}
	}
	return Cell{
		fmt.Sprintf("%.2f (%.2f-%.2f)", median(samples), quantile(samples, 0), quantile(samples, 1)),
		rounded(samples),
	}
}

// digits writes f with three significant digits, and all digits before the point.
func digits(f float64) string {
	switch a := math.Abs(f); {
	case math.IsNaN(f):
		return "-"
	case a == 0:
		return "0"
	case a >= 100:
		return strconv.FormatFloat(f, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	case a >= 1:
		return strconv.FormatFloat(f, 'f', 2, 64)
	}
	return strconv.FormatFloat(f, 'f', 3, 64)
}

// rounded keeps five significant digits, which is more than any sample is good for.
func rounded(samples []float64) []float64 {
	out := make([]float64, len(samples))
	for i, f := range samples {
		out[i], _ = strconv.ParseFloat(strconv.FormatFloat(f, 'g', 5, 64), 64)
	}
	return out
}

func (t *Table) add(cells ...Cell) { t.Rows = append(t.Rows, cells) }

// write renders the table as Markdown that can be read as it stands.
func (t *Table) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", t.Title)
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = max(utf8.RuneCountInString(c), 4)
		for _, row := range t.Rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].Text))
		}
	}
	line := func(text func(i int) string) {
		for i := range t.Columns {
			b.WriteString("| ")
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text(i)))
			if i == 0 {
				b.WriteString(text(i) + pad + " ")
			} else {
				b.WriteString(pad + text(i) + " ")
			}
		}
		b.WriteString("|\n")
	}
	line(func(i int) string { return t.Columns[i] })
	line(func(i int) string {
		if i == 0 {
			return strings.Repeat("-", widths[i])
		}
		return strings.Repeat("-", widths[i]-1) + ":"
	})
	for _, row := range t.Rows {
		line(func(i int) string { return row[i].Text })
	}
	if t.Note != "" {
		fmt.Fprintf(&b, "\n%s\n", t.Note)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// sizeName writes a number of bytes as the configuration does.
func sizeName(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
