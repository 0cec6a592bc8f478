package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A Report is the result of one part.
type Report struct {
	Name    string  `json:"name"`
	About   string  `json:"about"`
	Mode    string  `json:"mode"` // quick or full
	Commit  string  `json:"commit"`
	Machine Machine `json:"machine"`
	Tables  []Table `json:"tables"`

	// Problems are samples that failed a check and are in no table, and columns that agree exactly.
	Problems []string `json:"problems,omitempty"`
}

func (r *Report) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// suspectTwins makes a problem of columns that agree exactly.
func (r *Report) suspectTwins(where string, names []string, columns [][]float64) {
	for _, pair := range twins(names, columns) {
		r.problem("%s: %s and %s agree exactly, so they are not two measurements", where, pair[0], pair[1])
	}
}

// write renders the report as Markdown.
func (r *Report) write(w io.Writer) error {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "## %s\n\n%s\n\n", r.Name, r.About)
	fmt.Fprintf(&b, "%s run of commit %s with %s: %s, %d cores, kernel %s, %s.\n\n", r.Mode, r.Commit, m.Go, m.CPU, m.Cores, m.Kernel, m.System)
	for _, t := range r.Tables {
		if err := t.write(&b); err != nil {
			return err
		}
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "- **Problem:** %s\n", p)
	}
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

// numberLists are put on one line each.
var numberLists = regexp.MustCompile(`\[\s+[-+.\deE,\s]+\]`)

// save writes the report's .json and .md into dir.
func (r *Report) save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // results are for everyone to read
		return err
	}
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	data = numberLists.ReplaceAllFunc(data, func(list []byte) []byte {
		return []byte(strings.Join(strings.Fields(string(list)), ""))
	})
	var text strings.Builder
	if err := r.write(&text); err != nil {
		return err
	}
	base := filepath.Join(dir, r.Name)
	//nolint:gosec // results are for everyone to read
	if err := os.WriteFile(base+".json", append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(base+".md", []byte(text.String()), 0o644) //nolint:gosec // as above
}
