package tunnel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// What RFC 1928 and RFC 1929 put on the wire.
const (
	socksVersion = 5
	loginVersion = 1

	methodNone     = 0
	methodLogin    = 2
	methodRefusal  = 0xff
	commandConnect = 1

	addressIPv4 = 1
	addressName = 3
	addressIPv6 = 4
)

// askSOCKS asks the SOCKS5 server at the other end of conn for a connection to dest. It reads exactly the server's
// answers and not a byte more.
func askSOCKS(conn io.ReadWriter, auth *Auth, dest target) error {
	method, err := greet(conn, auth)
	if err != nil {
		return err
	}
	if method == methodLogin {
		if err := login(conn, auth); err != nil {
			return err
		}
	}
	if _, err := conn.Write(connectCommand(dest)); err != nil {
		return err
	}
	return readSOCKSReply(conn)
}

// greet offers what we can do and returns what the server chose of it.
func greet(conn io.ReadWriter, auth *Auth) (method byte, err error) {
	offer := []byte{socksVersion, 1, methodNone}
	if auth != nil {
		offer = []byte{socksVersion, 2, methodNone, methodLogin}
	}
	if _, err := conn.Write(offer); err != nil {
		return 0, err
	}
	var answer [2]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return 0, err
	}
	if answer[0] != socksVersion {
		return 0, fail(ProxyNotSOCKS, notSOCKS(answer[0]))
	}
	switch method := answer[1]; {
	case method == methodNone, method == methodLogin && auth != nil:
		return method, nil
	case method == methodLogin, method == methodRefusal && auth == nil:
		return 0, fail(ProxyAuthRequired, nil)
	case method == methodRefusal:
		return 0, fail(ProxyAuthRefused, errors.New("the SOCKS server takes neither a login by user name and password nor none"))
	default:
		return 0, fail(ProxyReplyMalformed, fmt.Errorf("the SOCKS server chose authentication method %d, which was not offered", method))
	}
}

// notSOCKS says what the peer may be instead, from the first byte of its answer.
func notSOCKS(first byte) error {
	switch first {
	case 'H', '<':
		return errors.New("it answers in HTTP: write http://")
	case 0x15, 0x16:
		return errors.New("it answers in TLS: write https://")
	case 0, 4:
		return errors.New("it speaks SOCKS4, not SOCKS5")
	}
	return fmt.Errorf("it answers with version %d, not SOCKS5", first)
}

// login is the sub-negotiation of RFC 1929, which has a version of its own.
func login(conn io.ReadWriter, auth *Auth) error {
	msg := []byte{loginVersion, byte(len(auth.Username))}
	msg = append(msg, auth.Username...)
	msg = append(msg, byte(len(auth.Password)))
	msg = append(msg, auth.Password...)
	if _, err := conn.Write(msg); err != nil {
		return err
	}
	var answer [2]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return err
	}
	if answer[0] != loginVersion {
		return fail(ProxyReplyMalformed, fmt.Errorf("the SOCKS server answered the login with version %d, not 1", answer[0]))
	}
	if answer[1] != 0 {
		return fail(ProxyAuthRefused, nil)
	}
	return nil
}

func connectCommand(dest target) []byte {
	msg := []byte{socksVersion, commandConnect, 0}
	switch ip := dest.ip.Unmap(); {
	case ip.Is4():
		msg = append(append(msg, addressIPv4), ip.AsSlice()...)
	case ip.Is6():
		msg = append(append(msg, addressIPv6), ip.AsSlice()...)
	default:
		msg = append(append(msg, addressName, byte(len(dest.name))), dest.name...)
	}
	return binary.BigEndian.AppendUint16(msg, dest.port)
}

// readSOCKSReply reads the answer to the command. Of a refusal only the code is awaited: servers cut the rest short.
func readSOCKSReply(r io.Reader) error {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	if head[0] != socksVersion {
		return fail(ProxyReplyMalformed, fmt.Errorf("the SOCKS server replied with version %d", head[0]))
	}
	if head[1] != 0 {
		return &failure{code: replyCode(head[1]), reply: head[1]}
	}
	// A reserved byte, and the kind of the address that the server connected from.
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	var size int
	switch head[1] {
	case addressIPv4:
		size = 4
	case addressIPv6:
		size = 16
	case addressName:
		var length [1]byte
		if _, err := io.ReadFull(r, length[:]); err != nil {
			return err
		}
		size = int(length[0])
	default:
		return fail(ProxyReplyMalformed, fmt.Errorf("the SOCKS server replied with address type %d", head[1]))
	}
	const port = 2
	_, err := io.ReadFull(r, make([]byte, size+port))
	return err
}

func replyCode(reply byte) Code {
	switch reply {
	case 1:
		return SOCKSGeneralFailure
	case 2:
		return SOCKSNotAllowed
	case 3:
		return SOCKSNetworkUnreachable
	case 4:
		return SOCKSHostUnreachable
	case 5:
		return SOCKSConnectionRefused
	case 6:
		return SOCKSTTLExpired
	case 7:
		return SOCKSCommandUnsupported
	case 8:
		return SOCKSAddressUnsupported
	}
	return SOCKSReplyUnknown
}
