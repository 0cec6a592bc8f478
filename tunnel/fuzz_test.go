package tunnel

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// dribble gives its bytes in pieces of sizes that a seed decides, then EOF.
type dribble struct {
	data []byte
	seed uint64
	read int
	most int // what one read asked for
}

func (d *dribble) Read(p []byte) (int, error) {
	d.most = max(d.most, len(p))
	if len(d.data) == 0 {
		return 0, io.EOF
	}
	d.seed = d.seed*6364136223846793005 + 1442695040888963407
	n := copy(p[:min(len(p), 1+int(d.seed>>40)%700)], d.data)
	d.data = d.data[n:]
	d.read += n
	return n, nil
}

func FuzzReadReply(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.0 204 \r\nContent-Length: 4\r\n\r\nabcd", "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200\n\nx",
		"HTTP/1.1 407 A\r\nProxy-Authenticate: Basic\r\n", "\x05\xff", "HTTP/1.1 200 OK\r\nX: ", "HTTP/1.1 2000\r\n", "",
	} {
		f.Add([]byte(seed), uint64(1))
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		r := &dribble{data: data, seed: seed}
		status, behind, err := readReply(r)
		if r.read > maxHead || r.most > maxHead {
			t.Fatalf("read %d bytes, asked for %d", r.read, r.most)
		}
		var f *failure
		switch {
		case err != nil && (status != 0 || behind != nil):
			t.Fatalf("%d and %q with error %v", status, behind, err)
		case err != nil && err != io.EOF && !errors.As(err, &f):
			t.Fatalf("error %v (%T) is neither the conn's nor has a code", err, err)
		case err != nil:
			return
		case status < 200 && status != 101 || status > 999:
			t.Fatalf("status %d", status)
		}
		if status > 299 || status == 101 {
			if behind != nil {
				t.Fatalf("%q behind a refusal", behind)
			}
			return
		}
		// What is behind, and what was not read, are the end of the data; the head before it ends in an empty line.
		rest := append(bytes.Clone(behind), r.data...)
		if !bytes.HasSuffix(data, rest) {
			t.Fatalf("%q is not the end of %q", rest, data)
		}
		head := data[:len(data)-len(rest)]
		if !bytes.HasSuffix(head, []byte("\n\r\n")) && !bytes.HasSuffix(head, []byte("\n\n")) {
			t.Fatalf("the head %q does not end in an empty line", head)
		}
		// The same bytes in other pieces give the same, and any less of the head gives nothing.
		again := &dribble{data: data, seed: seed + 1}
		if status2, behind2, err := readReply(again); status2 != status || err != nil ||
			!bytes.Equal(append(bytes.Clone(behind2), again.data...), rest) {
			t.Fatalf("in other pieces: %d, %q, %v", status2, behind2, err)
		}
		if _, _, err := readReply(bytes.NewReader(head[:len(head)-1])); err == nil {
			t.Fatalf("the head %q without its end is taken for a whole one", head)
		}
	})
}

// talk is the wire to a SOCKS server that says data, whatever it is told.
type talk struct {
	dribble
	said bytes.Buffer
}

func (c *talk) Write(p []byte) (int, error) { return c.said.Write(p) }

func FuzzSOCKS(f *testing.F) {
	for _, seed := range []string{
		noLogin + okIPv4 + "x", wantsLogin + "\x01\x00\x05\x00\x00\x03\x02ab\x00\x50x", noLogin + "\x05\x05", "\x05\xff", "HTTP/1.1 400",
		noLogin + "\x05\x00\x00\x04" + "0123456789abcdef" + "\x00\x50", wantsLogin + "\x05\x00",
	} {
		f.Add([]byte(seed), uint64(1), true)
		f.Add([]byte(seed), uint64(1), false)
	}
	dest, err := parseTarget("origin.test:443")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64, withLogin bool) {
		var auth *Auth
		if withLogin {
			auth = &Auth{"user", "secret"}
		}
		c := &talk{dribble: dribble{data: data, seed: seed}}
		err := askSOCKS(c, auth, dest)
		const longest = 2 + 2 + 4 + 1 + 255 + 2
		if c.read > longest {
			t.Fatalf("read %d bytes", c.read)
		}
		leaked := bytes.Contains(c.said.Bytes(), []byte("secret"))
		if leaked && (!withLogin || !bytes.HasPrefix(data, []byte(wantsLogin))) {
			t.Fatalf("the password was sent to one who did not ask for it: %q", data)
		}
		var f *failure
		if err != nil {
			if err != io.EOF && err != io.ErrUnexpectedEOF && !errors.As(err, &f) {
				t.Fatalf("error %v (%T) is neither the conn's nor has a code", err, err)
			}
			return
		}
		consumed := data[:c.read]
		if consumed[0] != socksVersion || !bytes.Contains(c.said.Bytes(), []byte(askOrigin)) {
			t.Fatalf("success after %q, having said %q", consumed, c.said.Bytes())
		}
		for n := range consumed {
			if err := askSOCKS(&talk{dribble: dribble{data: consumed[:n], seed: seed}}, auth, dest); err == nil {
				t.Fatalf("%q without its end is taken for a whole exchange", consumed)
			}
		}
	})
}

func FuzzParseTarget(f *testing.F) {
	for _, seed := range []string{"a:1", "[::1]:443", "[fe80::1%eth0]:80", "bücher.example:443", "a b:1", ":1", "a:b:1", "a:99999", "\r\n:1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, addr string) {
		dest, err := parseTarget(addr)
		if err != nil {
			if dest != (target{}) {
				t.Fatalf("%+v with error %v", dest, err)
			}
			return
		}
		text := dest.String()
		for i := range len(text) {
			if c := text[i]; (c <= ' ' || c >= 0x7f) && !dest.zoned {
				t.Fatalf("%q became %q", addr, text)
			}
		}
		if again, err := parseTarget(text); err != nil || again != dest {
			t.Fatalf("%q became %q, which is %+v, %v; want %+v", addr, text, again, err, dest)
		}
		if command := connectCommand(dest); len(dest.name) > 255 || len(command) > 4+1+255+2 {
			t.Fatalf("%q has a command of %d bytes", addr, len(command))
		}
	})
}
