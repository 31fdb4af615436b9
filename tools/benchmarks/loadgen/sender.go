package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// source tells the events of this run from those of an earlier one that are still on their way.
var source = fmt.Sprintf("/%d/loadgen", time.Now().UnixNano())

// acceptance remembers the ids that were answered with 2xx.
type acceptance struct {
	words []atomic.Uint32
	top   atomic.Int64
	count atomic.Int64
}

func (a *acceptance) add(first, count int64) {
	a.count.Add(count)
	for id := first; id < first+count; id++ {
		a.words[id/32].Or(uint32(1) << (id % 32))
	}
	for {
		old := a.top.Load()
		if first+count <= old || a.top.CompareAndSwap(old, first+count) {
			return
		}
	}
}

func (a *acceptance) each(visit func(int64)) {
	for id := int64(0); id < a.top.Load(); id++ {
		if a.words[id/32].Load()&(uint32(1)<<(id%32)) != 0 {
			visit(id)
		}
	}
}

type sender struct {
	o        options
	address  string
	host     string
	secure   *tls.Config // nil: without TLS
	opening  string      // of every request, up to where they begin to differ
	types    []string
	data     []byte
	next     atomic.Int64
	accepted acceptance
	answers  sync.Map // status to *atomic.Int64
	answer   histogram
	measured atomic.Int64 // accepted within the measured time
	answered atomic.Int64 // when the newest answer came, in Unix nanoseconds
	first    time.Time
	end      time.Time
}

func newSender(o options) (*sender, error) {
	target, err := url.Parse(o.url)
	if err != nil || target.Host == "" {
		return nil, fmt.Errorf("the address %q is no URL", o.url)
	}
	s := &sender{o: o, address: target.Host, host: target.Host, types: strings.Split(o.types, ",")}
	if o.host != "" {
		s.host = o.host
	}
	port := "80"
	switch target.Scheme {
	case "http":
		if o.authority != "" {
			return nil, fmt.Errorf("an authority is given, but the address %q is not https", o.url)
		}
	case "https":
		port = "443"
		if s.secure, err = trusting(o.authority); err != nil {
			return nil, err
		}
		s.secure.ServerName = target.Hostname()
	default:
		return nil, fmt.Errorf("the address %q is neither http nor https", o.url)
	}
	if target.Port() == "" {
		s.address = net.JoinHostPort(target.Hostname(), port)
	}
	s.accepted.words = make([]atomic.Uint32, maxEvents/32)
	s.data = dataOf(o.payload, o.fields)
	s.opening = fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\n", target.RequestURI(), s.host)
	if o.token != "" {
		if strings.ContainsAny(o.token, "\r\n") {
			return nil, errors.New("the token in " + tokenVariable + " is more than one line")
		}
		s.opening += "Authorization: Bearer " + o.token + "\r\n"
	}
	if o.batch == 1 {
		s.opening += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(s.data))
		s.opening += fmt.Sprintf("Ce-Specversion: 1.0\r\nCe-Source: %s\r\nCe-Id: ", source)
	} else {
		s.opening += "Content-Type: application/cloudevents-batch+json\r\nContent-Length: "
	}
	return s, nil
}

// trusting gives TLS that believes the authorities of a file of PEM; those of the system where none is given.
func trusting(file string) (*tls.Config, error) {
	if file == "" {
		return &tls.Config{}, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return &tls.Config{RootCAs: authorities}, nil
}

// dataOf gives JSON of so many bytes, or a few more: one long string, or many members with something to filter by.
func dataOf(payload, fields int) []byte {
	if fields <= 1 {
		return []byte(`{"pad":"` + strings.Repeat("x", max(payload-10, 0)) + `"}`)
	}
	var data strings.Builder
	data.WriteString(`{"order":{"country":"bench","total":120.5}`)
	for i := range fields {
		room := (payload - data.Len() - 1) / (fields - i)
		name := fmt.Sprintf(`,"field%d":"`, i)
		data.WriteString(name + strings.Repeat("x", max(room-len(name)-1, 0)) + `"`)
	}
	data.WriteString("}")
	return []byte(data.String())
}

func (s *sender) highest() *acceptance { return &s.accepted }

// run sends until the time (or count) is used up: warm-up first, then what is measured.
func (s *sender) run(in *inbox) {
	start := time.Now()
	s.first = start.Add(s.o.warmup)
	s.end = s.first.Add(s.o.duration)
	if s.o.warmup > 0 {
		in.measureFrom.Store(maxEvents)
		time.AfterFunc(s.o.warmup, func() { in.measureFrom.Store(s.next.Load()) })
	}
	due := s.schedule(start)
	var workers sync.WaitGroup
	for range s.o.connections {
		workers.Add(1)
		go func() {
			defer workers.Done()
			s.work(due)
		}()
	}
	workers.Wait()
}

// schedule gives the times at which events are due: at fixed intervals, or at once in a closed loop.
func (s *sender) schedule(start time.Time) <-chan time.Time {
	if s.o.rate <= 0 {
		return nil
	}
	due := make(chan time.Time, 1<<20)
	go func() {
		defer close(due)
		interval := time.Duration(float64(time.Second) / s.o.rate)
		for at := start; at.Before(s.end); at = at.Add(interval) {
			if wait := time.Until(at); wait > 0 {
				time.Sleep(wait)
			}
			due <- at
		}
	}()
	return due
}

func (s *sender) work(due <-chan time.Time) {
	var link *connection
	var request bytes.Buffer
	for {
		at := time.Now()
		if due != nil {
			planned, open := <-due
			if !open {
				return
			}
			at = planned
		} else if at.After(s.end) {
			return
		}
		first := s.next.Add(int64(s.o.batch)) - int64(s.o.batch)
		if first+int64(s.o.batch) > maxEvents || (s.o.count > 0 && first >= s.o.count) {
			return
		}
		s.compose(&request, first, at)
		if link == nil {
			link = s.dial()
		}
		status := link.exchange(request.Bytes(), s.o.timeout)
		if status == 0 {
			link = nil
			time.Sleep(10 * time.Millisecond)
		}
		s.note(status, first, at)
	}
}

func (s *sender) note(status int, first int64, at time.Time) {
	counter, _ := s.answers.LoadOrStore(status, new(atomic.Int64))
	counter.(*atomic.Int64).Add(1)
	if status/100 != 2 {
		return
	}
	s.accepted.add(first, int64(s.o.batch))
	now := time.Now()
	s.answered.Store(now.UnixNano())
	if now.After(s.first) && now.Before(s.end.Add(s.o.timeout)) {
		s.answer.add(now.Sub(at).Microseconds())
		if now.Before(s.end) {
			s.measured.Add(int64(s.o.batch))
		}
	}
}

func (s *sender) compose(out *bytes.Buffer, first int64, at time.Time) {
	out.Reset()
	due := strconv.FormatInt(at.UnixNano(), 10)
	out.WriteString(s.opening)
	if s.o.batch == 1 {
		out.WriteString(strconv.FormatInt(first, 10))
		out.WriteString("\r\nCe-Type: ")
		out.WriteString(s.typeOf(first))
		out.WriteString("\r\nCe-Due: ")
		out.WriteString(due)
		out.WriteString("\r\n\r\n")
		out.Write(s.data)
		return
	}
	opening := `{"specversion":"1.0","source":"` + source + `","id":"`
	var body bytes.Buffer
	body.Grow(s.o.batch * (len(s.data) + 200))
	for i := int64(0); i < int64(s.o.batch); i++ {
		separator := byte(',')
		if i == 0 {
			separator = '['
		}
		body.WriteByte(separator)
		body.WriteString(opening)
		body.WriteString(strconv.FormatInt(first+i, 10))
		body.WriteString(`","type":"`)
		body.WriteString(s.typeOf(first + i))
		body.WriteString(`","due":"`)
		body.WriteString(due)
		body.WriteString(`","data":`)
		body.Write(s.data)
		body.WriteByte('}')
	}
	body.WriteByte(']')
	fmt.Fprintf(out, "%d\r\n\r\n", body.Len())
	out.Write(body.Bytes())
}

func (s *sender) typeOf(id int64) string { return s.types[id%int64(len(s.types))] }

type connection struct {
	socket   net.Conn
	reader   *bufio.Reader
	deadline time.Time
}

// dial connects; nil where nobody answers, which may pass. A certificate that is not trusted ends the run.
func (s *sender) dial() *connection {
	socket, err := s.connect()
	if refused := new(tls.CertificateVerificationError); errors.As(err, &refused) {
		fail(fmt.Errorf("%s: %w", s.address, err))
	}
	if err != nil {
		return nil
	}
	return &connection{socket: socket, reader: bufio.NewReader(socket)}
}

func (s *sender) connect() (net.Conn, error) {
	limit, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if s.secure != nil {
		return (&tls.Dialer{Config: s.secure}).DialContext(limit, "tcp", s.address)
	}
	return new(net.Dialer).DialContext(limit, "tcp", s.address)
}

// exchange sends a request and gives the status of the answer; 0 where there was none, and the connection is closed.
func (c *connection) exchange(request []byte, timeout time.Duration) int {
	if c == nil {
		return 0
	}
	if deadline := time.Now().Add(timeout); deadline.Sub(c.deadline) > time.Second { // to set it every time costs more than it tells
		c.deadline = deadline
		_ = c.socket.SetDeadline(deadline)
	}
	if _, err := c.socket.Write(request); err != nil {
		_ = c.socket.Close()
		return 0
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		_ = c.socket.Close()
		return 0
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if response.Close {
		_ = c.socket.Close()
		return 0
	}
	return response.StatusCode
}
