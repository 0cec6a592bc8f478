package bench

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// A Machine is what figures depend on. It does not name the host.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	System string `json:"system"` // as in linux/amd64
	Go     string `json:"go"`
}

func thisMachine() Machine {
	m := Machine{CPU: "unknown CPU", Cores: runtime.NumCPU(), Kernel: "unknown", System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(release))
	}
	return m
}

// commit names what this program was built from, as the go command stamped it.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, modified := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = " with changes"
		}
	}
	return revision + modified
}
