package caddytunnel_test

import (
	"bufio"
	"html"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestDemo serves the demo, follows every link of its page and interrupts it.
func TestDemo(t *testing.T) {
	port, admin := freePort(t), freePort(t)
	env := []string{"DEMO_PORT=" + port, "DEMO_ADMIN_PORT=" + admin}
	p := newProcess(t, env, caddyProgram(t), "tunnel", "demo")
	p.start()
	site := "http://localhost:" + port
	p.awaitUp(site+"/", 20*time.Second)
	status, page := fetch(t, site+"/")
	if status != 200 {
		t.Fatalf("the page's status is %d", status)
	}
	links := regexp.MustCompile(`href="([^"]+)"`).FindAllStringSubmatch(string(page), -1)
	var over []string
	for _, m := range links {
		link := html.UnescapeString(m[1])
		switch status, body := fetch(t, site+link); {
		case status == 502 && len(body) == 0:
			over = append(over, link)
		case status != 200 || len(body) == 0:
			t.Errorf("%s: status %d, %d bytes", link, status, len(body))
		}
	}
	if len(links) < 8 {
		t.Errorf("the page has %d links", len(links))
	}
	if !slices.Equal(over, []string{"/capped/bytes/65537"}) {
		t.Errorf("answered with 502: %v", over)
	}
	if status, _ := fetch(t, "http://localhost:"+admin+"/config/apps/http"); status != 200 {
		t.Errorf("the admin API answers %d", status)
	}

	// Caddy lets programs share a port, so a second demo could steal requests from this one.
	second := newProcess(t, []string{"DEMO_PORT=" + port, "DEMO_ADMIN_PORT=" + freePort(t)}, caddyProgram(t), "tunnel", "demo")
	if code := second.run(); code != 1 {
		t.Errorf("a second demo on the same port exits with %d", code)
	}
	second.assertNoTrace()

	if code := p.interrupt(); code != 0 {
		t.Errorf("exit code %d after an interrupt", code)
	}
	p.assertNoTrace()
}

// TestDemoEndlessResponse interrupts the demo in the middle of an endless response.
func TestDemoEndlessResponse(t *testing.T) {
	port := freePort(t)
	p := newProcess(t, []string{"DEMO_PORT=" + port, "DEMO_ADMIN_PORT=" + freePort(t)}, caddyProgram(t), "tunnel", "demo")
	p.start()
	p.awaitUp("http://localhost:"+port+"/", 20*time.Second)
	conn, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET /http/events?n=0&every=1s HTTP/1.1\r\nHost: localhost:" + port + "\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
		t.Fatalf("the answer begins with %q, %v", line, err)
	}
	if code := p.interrupt(); code != 0 {
		t.Errorf("exit code %d after an interrupt", code)
	}
	p.assertNoTrace()
}

func TestDemoBusyPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, busy, _ := net.SplitHostPort(l.Addr().String())
	for _, name := range []string{"DEMO_PORT", "DEMO_ADMIN_PORT"} {
		t.Run(name, func(t *testing.T) {
			env := []string{"DEMO_PORT=" + freePort(t), "DEMO_ADMIN_PORT=" + freePort(t), name + "=" + busy}
			p := newProcess(t, env, caddyProgram(t), "tunnel", "demo")
			if code := p.run(); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if msg := p.stderr.String(); !strings.Contains(msg, "port "+busy) || !strings.Contains(msg, name+"=") {
				t.Errorf("the message names neither the port nor how to choose another: %s", msg)
			}
			if strings.Contains(p.stdout.String(), "http://") {
				t.Errorf("it claims to be up: %s", &p.stdout)
			}
			p.assertNoTrace()
		})
	}
}

func TestDemoCheck(t *testing.T) {
	p := newProcess(t, nil, caddyProgram(t), "tunnel", "demo", "--check")
	if code := p.run(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	lines := strings.Split(strings.TrimSpace(p.stdout.String()), "\n")
	for _, column := range []string{"ROUTE", "WAY", "PROTOCOL", "STATUS", "BYTES", "SHA-256 EQUAL", "MS"} {
		if !strings.Contains(lines[0], column) {
			t.Errorf("the table has no column %s: %s", column, lines[0])
		}
	}
	if len(lines) < 9 {
		t.Errorf("the table has %d lines", len(lines))
	}
	for _, line := range lines[1:] {
		if !strings.HasSuffix(line, " ok") {
			t.Errorf("not ok: %s", line)
		}
	}
	if msg := p.stderr.String(); msg != "" {
		t.Errorf("beside the table: %s", msg)
	}
	p.assertNoTrace()
}

func TestCommandHelp(t *testing.T) {
	for _, test := range []struct {
		name, args string
		code       int
		want       string
	}{
		{"listed", "help", 0, "Tools of the tunnel transport"},
		{"bare", "tunnel", 0, "Serves the examples"},
		{"demo", "tunnel demo --help", 0, "DEMO_PORT (8080) and DEMO_ADMIN_PORT (2020)"},
		{"unknown_command", "tunnel nonsense", 1, `unknown command "nonsense"`},
		{"unknown_flag", "tunnel demo --nonsense", 1, "unknown flag: --nonsense"},
		{"stray_argument", "tunnel demo nonsense", 1, "nonsense"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newProcess(t, nil, caddyProgram(t), strings.Fields(test.args)...)
			if code := p.run(); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if all := p.stdout.String() + p.stderr.String(); !strings.Contains(all, test.want) {
				t.Errorf("printed %s\nwant %q", all, test.want)
			}
			p.assertNoTrace()
		})
	}
}
