package tunnel

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// validate checks the hop by itself; first says that it is the nearest one.
func (h *Hop) validate(first bool) error {
	switch h.Dialect {
	case HTTP, HTTPS, H2:
		if err := h.validateHeader(); err != nil {
			return err
		}
	case SOCKS5:
	default:
		return fmt.Errorf("unknown dialect %q: http, https, h2, socks5 or direct", h.Dialect)
	}
	if err := h.validateAuth(); err != nil {
		return err
	}
	switch h.network() {
	case "tcp", "tcp4", "tcp6":
		if t, err := parseTarget(h.Addr); err != nil {
			return fmt.Errorf("address: %w", err)
		} else if t.zoned && !first {
			return errZone
		}
	case "unix":
		if !first {
			return errors.New("only the first hop can be on a Unix socket")
		}
		if h.Addr == "" || strings.ContainsRune(h.Addr, 0) {
			return errors.New("address: not a path of a Unix socket")
		}
		if h.usesTLS() && (h.TLS == nil || h.TLS.ServerName == "" && h.TLS.VerifyName == "" && !h.TLS.InsecureSkipVerify) {
			return errors.New("TLS over a Unix socket needs a server name")
		}
	default:
		return fmt.Errorf("unknown network %q: tcp or unix", h.Network)
	}
	return nil
}

func (h *Hop) validateAuth() error {
	if h.Auth == nil {
		return nil
	}
	user, password := h.Auth.Username, h.Auth.Password
	if h.Dialect == SOCKS5 {
		switch {
		case user == "":
			return errors.New("SOCKS5 needs a user name that is not empty")
		case len(user) > 255:
			return errors.New("the user name is longer than the 255 bytes of SOCKS5")
		case len(password) > 255:
			return errors.New("the password is longer than the 255 bytes of SOCKS5")
		}
		return nil
	}
	switch {
	case user == "" && password == "":
		return errors.New("the user name and the password are empty")
	case strings.Contains(user, ":"):
		return errors.New("a user name of Basic credentials cannot hold a colon")
	case strings.ContainsAny(user+password, "\r\n\x00"):
		return errors.New("the credentials hold a line break or a NUL")
	}
	return nil
}

// validateHeader admits only what cannot end the request, be taken for another field, or frame a body. A value is
// never quoted: it may be a credential.
func (h *Hop) validateHeader() error {
	for name, values := range h.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("%q is not a header name", name)
		}
		switch canonical := http.CanonicalHeaderKey(name); canonical {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer", "Te", "Upgrade", "Expect":
			return fmt.Errorf("header %s cannot be set on CONNECT", canonical)
		case "Connection", "Proxy-Connection", "Keep-Alive":
			if h.Dialect == H2 {
				return fmt.Errorf("header %s does not exist in HTTP/2", canonical)
			}
		case "Proxy-Authorization":
			if h.Auth != nil {
				return errors.New("header Proxy-Authorization and a login exclude each other")
			}
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return fmt.Errorf("the value of header %s holds a line break or another control character", name)
			}
		}
	}
	return nil
}
