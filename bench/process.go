package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// A process is a program of this run. It sees nothing of the environment but PATH.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout io.Reader
	done   chan struct{} // closed when it has ended
	err    error         // how; once done
}

// startProcess runs a program in a folder that is its HOME; empty: none. ctx kills it. What it prints as errors goes to
// those of this process.
func startProcess(ctx context.Context, home, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, name, args...), done: make(chan struct{})}
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_DATA_HOME=" + home, "XDG_CONFIG_HOME=" + home}
	p.cmd.Stderr = os.Stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.stdin, p.stdout, p.cmd.Stdout = stdin, stdout, ours
	err = p.cmd.Start()
	ours.Close() // the program has its own
	if err != nil {
		stdout.Close()
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		stdout.Close()
		close(p.done)
	}()
	return p, nil
}

// patience is how long a program has to end once it is told to.
const patience = 10 * time.Second

// stop ends the input of a program that ends with it.
func (p *process) stop() error {
	p.stdin.Close()
	return p.awaitEnd()
}

// interrupt ends another program.
func (p *process) interrupt() error {
	_ = p.cmd.Process.Signal(os.Interrupt) // it may have ended already
	return p.awaitEnd()
}

func (p *process) awaitEnd() error {
	select {
	case <-p.done:
		return p.err
	case <-time.After(patience):
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	return errors.Join(fmt.Errorf("%s had to be killed", p.cmd.Path), p.err)
}
