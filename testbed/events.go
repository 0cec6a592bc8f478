package testbed

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// StreamHeader is the response header that carries an event stream's id.
const StreamHeader = "X-Stream-Id"

// eventStreams are the open event streams by id. The zero value is ready.
type eventStreams struct {
	mu   sync.Mutex
	open map[string]*eventStream
}

// eventStream is one stream: how far its client has read.
type eventStream struct {
	acked int           // the last event acknowledged; guarded by eventStreams.mu
	moved chan struct{} // holds a token after acked has grown
}

func (s *eventStreams) start(id string) (*eventStream, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[string]*eventStream)
	}
	if s.open[id] != nil {
		return nil, false
	}
	stream := &eventStream{moved: make(chan struct{}, 1)}
	s.open[id] = stream
	return stream, true
}

func (s *eventStreams) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, id)
}

func (s *eventStreams) acked(stream *eventStream) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return stream.acked
}

// Ack tells the event stream of this id that its client has read event seq and all before it. The first event has
// number 1. The error is ErrNoStream when no such stream is open.
func (o *Origin) Ack(id string, seq int) error {
	o.streams.mu.Lock()
	defer o.streams.mu.Unlock()
	stream := o.streams.open[id]
	if stream == nil {
		return ErrNoStream
	}
	stream.acked = max(stream.acked, seq)
	select {
	case stream.moved <- struct{}{}:
	default:
	}
	return nil
}

// acknowledge is Ack over HTTP.
func (o *Origin) acknowledge(w http.ResponseWriter, r *http.Request) {
	seq, err := strconv.Atoi(r.FormValue("seq"))
	if err != nil {
		http.Error(w, "seq: "+err.Error(), http.StatusBadRequest)
		return
	}
	if err := o.Ack(r.FormValue("id"), seq); err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// events answers an event stream whose event k+1 is written only after event k was acknowledged.
func (o *Origin) events(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	n, err := number(query.Get("n"), 5)
	every, everyErr := duration(query.Get("every"), 0)
	pad, padErr := ParseSize(defaulted(query.Get("pad"), "0"))
	var codings []string
	if coding := query.Get("coding"); coding == "auto" {
		codings = offered(r.Header["Accept-Encoding"])
	} else if coding != "" {
		codings = strings.Split(coding, ",")
	}
	out, codingErr := newEncoders(codings, w, 0)
	if err := firstError(err, everyErr, padErr, codingErr); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id := defaulted(query.Get("id"), rand.Text())
	stream, ok := o.streams.start(id)
	if !ok {
		http.Error(w, "the event stream "+id+" is open already", http.StatusConflict)
		return
	}
	defer o.streams.end(id)

	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache")
	header.Set(StreamHeader, id)
	for i, coding := range codings {
		codings[i] = contentCoding(coding)
	}
	if len(codings) > 0 {
		header.Set("Content-Encoding", strings.Join(codings, ", "))
	}
	control := http.NewResponseController(w)
	if control.Flush() != nil {
		return
	}
	for seq := 1; n == 0 || seq <= n; seq++ {
		fmt.Fprintf(out, "id: %d\ndata: {\"stream\":%q,\"seq\":%d}\n", seq, id, seq)
		if pad > 0 {
			fmt.Fprintf(out, ": %s\n", strings.Repeat("-", int(min(pad, 1<<20))))
		}
		fmt.Fprint(out, "\n")
		if out.Flush() != nil || control.Flush() != nil {
			return
		}
		if seq != n && !o.awaitNext(r, stream, seq, every) {
			panic(http.ErrAbortHandler) // never the look of a complete stream
		}
	}
	_ = out.Close()
}

// awaitNext returns when the event after seq is due, and false when nobody waits for it any more. With a duration,
// events are due by time and not by acknowledgement.
func (o *Origin) awaitNext(r *http.Request, stream *eventStream, seq int, every time.Duration) bool {
	var tick <-chan time.Time
	if every > 0 {
		timer := time.NewTimer(every)
		defer timer.Stop()
		tick = timer.C
	}
	for o.streams.acked(stream) < seq {
		select {
		case <-tick:
			return true
		case <-stream.moved:
		case <-r.Context().Done():
			return false
		}
	}
	return true
}
