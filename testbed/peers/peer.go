package peers

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startTimeout = 20 * time.Second // squid takes a second or two on a busy machine
	stopTimeout  = time.Second / 2  // from SIGTERM to SIGKILL: peers have nothing to save, and squid takes longer
	startTries   = 3                // another process may take a free port first
)

// A Kind is a peer's configuration.
type Kind interface {
	// Start starts the peer and returns when it listens. The caller stops it.
	Start() (*Peer, error)
	// Program is the name of what must be installed.
	Program() string
}

// Start starts a peer for a test: it skips the test if the program is missing (see [Need]), stops the peer when the
// test ends and shows what it printed if the test failed.
func Start(t testing.TB, k Kind) *Peer {
	t.Helper()
	Need(t, k.Program())
	p, err := k.Start()
	if err != nil {
		t.Fatal(err)
	}
	p.stopWith(t)
	return p
}

// A Peer is a running daemon. Its methods are safe for concurrent use.
type Peer struct {
	// Name is the program's name, Addr the host:port that it listens on.
	Name, Addr string
	// CA vouches for a peer that does TLS. Otherwise it is nil.
	CA *CA

	dir  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // how it ended; valid after done
	stop sync.Once
}

// Log returns what the peer has printed so far, its access log included. It is empty after Stop.
func (p *Peer) Log() string {
	b, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Stop ends the peer and all its processes and removes its files. When it returns, the port is closed. It is safe to
// call it again.
func (p *Peer) Stop() {
	p.stop.Do(func() {
		p.end()
		os.RemoveAll(p.dir)
	})
}

func (p *Peer) end() {
	signalGroup(p.cmd.Process, syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
	}
	signalGroup(p.cmd.Process, syscall.SIGKILL) // also what the first process left behind
	<-p.done
	for range 100 { // its children end in their own time
		conn, err := net.DialTimeout("tcp", p.Addr, time.Second)
		if err != nil {
			return
		}
		conn.Close()
		time.Sleep(10 * time.Millisecond)
	}
}

func (p *Peer) stopWith(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s printed:\n%s", p.Name, p.Log())
		}
		p.Stop()
	})
}

// setup is what one attempt to start a peer may use.
type setup struct {
	dir   string
	ports []string // free ports, the first is the one to wait for
}

func (s *setup) addr(i int) string { return net.JoinHostPort("127.0.0.1", s.ports[i]) }

// launch starts the program name with what prepare returns as its arguments, after prepare has
// put the peer's files into the directory.
func launch(name string, ports int, prepare func(*setup) (args []string, err error)) (*Peer, *setup, error) {
	path, err := lookPath(name)
	if err != nil {
		return nil, nil, err
	}
	for try := 1; ; try++ {
		p, s, err := attempt(name, path, ports, prepare)
		var failed *StartError
		if err == nil || try == startTries || !errors.As(err, &failed) {
			return p, s, err
		}
	}
}

func attempt(name, path string, ports int, prepare func(*setup) ([]string, error)) (_ *Peer, _ *setup, err error) {
	s := &setup{}
	if s.dir, err = os.MkdirTemp("", "peer-"+name+"-"); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(s.dir)
		}
	}()
	if s.ports, err = freePorts(ports); err != nil {
		return nil, nil, err
	}
	args, err := prepare(s)
	if err != nil {
		return nil, nil, fmt.Errorf("preparing %s: %w", name, err)
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close() // the peer's processes have their own descriptors
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.Env = append(os.Environ(), "TMPDIR="+s.dir)
	if err := restrict(cmd, s.dir); err != nil {
		return nil, nil, fmt.Errorf("preparing %s: %w", name, err)
	}
	p := &Peer{Name: name, Addr: s.addr(0), dir: s.dir, cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, nil, err
	}
	if err := p.waitReady(); err != nil {
		p.end()
		return nil, nil, &StartError{Name: name, Err: err, Log: p.Log()}
	}
	return p, s, nil
}

// run holds one system thread for the peer's life, because Linux ends a child with the thread that
// started it, not with the process.
func (p *Peer) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

// waitReady returns when the peer's port accepts. Whatever peer it is, it sees a connection that says nothing.
func (p *Peer) waitReady() error {
	timeout := time.After(startTimeout)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			return fmt.Errorf("it ended: %w", cmpErr(p.err, io.EOF))
		case <-timeout:
			return fmt.Errorf("%s does not accept after %v", p.Addr, startTimeout)
		case <-tick.C:
		}
		if conn, err := net.DialTimeout("tcp", p.Addr, time.Second); err == nil {
			return conn.Close()
		}
	}
}

func cmpErr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
