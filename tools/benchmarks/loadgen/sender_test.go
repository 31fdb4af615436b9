package main

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestDataIsJsonOfTheSizeAskedFor(t *testing.T) {
	for _, fields := range []int{1, 2, 20} {
		data := dataOf(1024, fields)
		var read map[string]any
		if err := json.Unmarshal(data, &read); err != nil {
			t.Fatalf("%d fields: %v", fields, err)
		}
		if len(data) < 1000 || len(data) > 1024 {
			t.Errorf("%d fields: %d bytes", fields, len(data))
		}
		if _, asked := read["order"]; asked != (fields > 1) {
			t.Errorf("%d fields: order is there: %v", fields, asked)
		}
	}
}

// taken remembers what a server was sent.
type taken struct {
	sync.Mutex
	clients map[string]bool
	tokens  map[string]bool
	version string
	count   int
}

func (t *taken) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	t.Lock()
	defer t.Unlock()
	t.clients[request.RemoteAddr], t.tokens[request.Header.Get("Authorization")] = true, true
	t.version, t.count = request.Proto, t.count+1
	answer.WriteHeader(http.StatusAccepted)
}

func sendTo(t *testing.T, o options) *sender {
	t.Helper()
	o.types, o.batch, o.connections, o.payload, o.fields = "bench", 1, 2, 64, 1
	o.count, o.duration, o.timeout = 20, 10*time.Second, 5*time.Second
	s, err := newSender(o)
	if err != nil {
		t.Fatal(err)
	}
	s.run(new(inbox))
	return s
}

func authorityOf(t *testing.T, server *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestOverTLSConnectionsStayAsWithout(t *testing.T) {
	for _, secure := range []bool{false, true} {
		seen := &taken{clients: map[string]bool{}, tokens: map[string]bool{}}
		server := httptest.NewUnstartedServer(seen)
		server.EnableHTTP2 = true // which is not to be spoken
		o := options{}
		if secure {
			server.StartTLS()
			o.authority = authorityOf(t, server)
		} else {
			server.Start()
		}
		o.url = server.URL + "/bench/b"
		s := sendTo(t, o)
		server.Close()
		if s.accepted.count.Load() != 20 || seen.count != 20 {
			t.Errorf("secure %v: %d of %d were accepted", secure, s.accepted.count.Load(), seen.count)
		}
		if len(seen.clients) > 2 || seen.version != "HTTP/1.1" {
			t.Errorf("secure %v: %d connections, %s", secure, len(seen.clients), seen.version)
		}
	}
}

func TestTheTokenGoesWithEveryRequest(t *testing.T) {
	for token, header := range map[string]string{"": "", "abc.def": "Bearer abc.def"} {
		seen := &taken{clients: map[string]bool{}, tokens: map[string]bool{}}
		server := httptest.NewServer(seen)
		sendTo(t, options{url: server.URL, token: token})
		server.Close()
		if len(seen.tokens) != 1 || !seen.tokens[header] {
			t.Errorf("%q: sent as %v", token, seen.tokens)
		}
	}
}

func TestACertificateOfAnotherAuthorityIsRefused(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	s, err := newSender(options{url: server.URL, batch: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.connect()
	if refused := new(tls.CertificateVerificationError); !errors.As(err, &refused) {
		t.Errorf("not refused: %v", err)
	}
}

func TestBadInputIsNamed(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for said, o := range map[string]options{
		"neither http nor https": {url: "ftp://127.0.0.1/"},
		"is no URL":              {url: "127.0.0.1"},
		"is not https":           {url: "http://127.0.0.1/", authority: empty},
		"holds no certificate":   {url: "https://127.0.0.1/", authority: empty},
		"no such file":           {url: "https://127.0.0.1/", authority: empty + ".absent"},
		"more than one line":     {url: "http://127.0.0.1/", token: "a\r\nCe-Type: b"},
	} {
		if _, err := newSender(o); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestThePortIsThatOfTheScheme(t *testing.T) {
	for address, port := range map[string]string{"http://h/": "h:80", "https://h/": "h:443", "https://h:8444/": "h:8444"} {
		if s, err := newSender(options{url: address, batch: 1}); err != nil || s.address != port {
			t.Errorf("%s: %v, %v", address, s, err)
		}
	}
}
