package peers

import (
	"embed"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed conf/*.tmpl
var confFiles embed.FS

// writeConf renders conf/name.tmpl with data into the peer's directory and returns the file's path.
func (s *setup) writeConf(name string, data any) (string, error) {
	t, err := template.New(name+".tmpl").Option("missingkey=error").ParseFS(confFiles, "conf/"+name+".tmpl")
	if err != nil {
		return "", err
	}
	path := filepath.Join(s.dir, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return "", err
	}
	if err := t.Execute(f, data); err != nil {
		f.Close() // the other error says more
		return "", err
	}
	return path, f.Close()
}
