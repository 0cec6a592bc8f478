package tunnel

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/caddytunnel/caddytunnel/tlsuser"
)

// Error says what failed where, then what to do about it or, where there is nothing to advise, that nothing went
// another way; it ends in the code.
func (e *Error) Error() string {
	text := e.what()
	if hint := e.hint(); hint != "" {
		text += ": " + hint
	} else if e.Stage != StageConfig && e.Hop != string(Direct) {
		text += fmt.Sprintf("; nothing was sent to %s, no direct connection was made", clip(e.Target))
	}
	return fmt.Sprintf("%s [%s]", text, e.Code)
}

func (e *Error) what() string {
	switch e.Stage {
	case StageConfig:
		if e.Hop != "" {
			return fmt.Sprintf("hop %s cannot be used: %s", e.Hop, e.cause())
		}
		return fmt.Sprintf("cannot tunnel to %q: %s", clip(e.Target), e.cause())
	case StageDial:
		if e.Hop == string(Direct) {
			return fmt.Sprintf("cannot connect to %s: %s", e.Addr, e.cause())
		}
		return fmt.Sprintf("cannot connect to %s: %s", e.where(), e.cause())
	case StageTLS:
		return fmt.Sprintf("TLS to proxy %s: %s", e.Hop, e.cause())
	}
	switch {
	case e.Status != 0:
		return fmt.Sprintf("proxy %s refused CONNECT %s (%d)", e.Hop, e.Addr, e.Status)
	case e.Reply != 0:
		return fmt.Sprintf("proxy %s refused to connect to %s (SOCKS reply %d: %s)", e.Hop, e.Addr, e.Reply, replyText(e.Reply))
	}
	text := fmt.Sprintf("proxy %s did not open a tunnel to %s", e.Hop, e.Addr)
	if e.Err == nil && !e.Timeout() && e.hint() != "" {
		return text
	}
	return text + ": " + e.cause()
}

// where names the proxy and, unless its name holds it, its address.
func (e *Error) where() string {
	if strings.Contains(e.Hop, e.Addr) {
		return "proxy " + e.Hop
	}
	return fmt.Sprintf("proxy %s (%s)", e.Hop, e.Addr)
}

// cause is the shortest text of e.Err that says it all.
func (e *Error) cause() string {
	var (
		errno syscall.Errno
		dns   *net.DNSError
		tls   *tlsuser.Error
	)
	switch {
	case e.Code == DialCancelled:
		return "cancelled"
	case e.Timeout():
		return "timed out"
	case e.Code == ProxyClosed:
		return "it closed the connection"
	case e.Err == nil:
		return "failed"
	case errors.As(e.Err, &tls):
		return tls.Reason()
	case errors.As(e.Err, &dns):
		return "looking up " + clip(dns.Name) + ": " + dns.Err
	case errors.As(e.Err, &errno):
		return errno.Error()
	}
	return clip(e.Err.Error())
}

// hint is what an operator can do.
func (e *Error) hint() string {
	switch e.Code {
	case proxyTLS + Code(tlsuser.CertUntrusted):
		return "put 'tls_trust_pool file <ca.pem>' inside its block; outside it means the origin"
	case proxyTLS + Code(tlsuser.CertNameMismatch):
		return "put 'tls_server_name <name>' inside its block; outside it means the origin"
	case proxyTLS + Code(tlsuser.ClientCertRefused):
		return "put 'tls_client_auth <cert.pem> <key.pem>' inside its block; outside it means the origin"
	case proxyTLS + Code(tlsuser.NotTLS):
		return "if it is a proxy without TLS, write http:// or socks5://"
	case proxyTLS + Code(tlsuser.CertExpired):
		return "renew the proxy's certificate, or check this host's clock"
	case ProxyAuthRequired:
		return "it wants a login: put user:password@ into its URL, or 'auth basic <user> <password>' inside its block"
	case ProxyAuthRefused:
		return "it does not accept the login configured: check user and password"
	case proxyTLS + Code(tlsuser.Timeout):
		return "it is slow (raise tunnel_timeout), or does not speak TLS (write http:// or socks5://)"
	case ProxyTunnelTimeout:
		return "it is slow (raise tunnel_timeout), or does not speak what the scheme of its URL says"
	case ProxyConnectRefused:
		return statusHint(e.Status, e.Addr)
	}
	return ""
}

func statusHint(status int, addr string) string {
	switch status {
	case http.StatusForbidden:
		if !strings.HasSuffix(addr, ":443") {
			return "many proxies allow port 443 only"
		}
		return "its rules do not allow this target"
	case http.StatusUnauthorized:
		return "this is how an origin asks for a login, and how some proxies refuse one: check user and password"
	case http.StatusBadRequest:
		return "either it expects TLS (write https:// or h2://) or it is no proxy"
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return "it does not seem to be a proxy"
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return "it could not reach the target itself: see its log"
	}
	return ""
}

func replyText(reply byte) string {
	switch reply {
	case 1:
		return "general failure"
	case 2:
		return "not allowed by its rules"
	case 3:
		return "network unreachable"
	case 4:
		return "host unreachable"
	case 5:
		return "connection refused"
	case 6:
		return "time to live expired"
	case 7:
		return "command not supported"
	case 8:
		return "address type not supported"
	}
	return "unknown"
}

// clip bounds text that came from outside.
func clip(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
