package node

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sluice/test/testenv"
)

func TestUnusableCertificatesAreRefused(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := newPair(t, 1).write(t, dir)
	_, foreignKey := newPair(t, 2).write(t, t.TempDir())
	for want, files := range map[string][2]string{
		"no such file":   {filepath.Join(dir, "none"), keyFile},
		"does not match": {certFile, foreignKey},
		"cannot be used": {keyFile, certFile},
	} {
		if _, err := loadCertificate(files[0], files[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one that contains %q", files, err, want)
		}
	}
}

// TestCertificateFollowsItsFiles checks that the poll finds a change, and that a signal does not
// wait for the poll.
func TestCertificateFollowsItsFiles(t *testing.T) {
	dir := t.TempDir()
	first := newPair(t, 1)
	c := first.load(t, dir)
	second, third := newPair(t, 2), newPair(t, 3)
	watched(t, c, func(poll func(), reload chan<- os.Signal, log *logBuffer) {
		if poll(); c.serial() != 1 || log.String() != "" {
			t.Errorf("without a change: certificate %d, log %q", c.serial(), log)
		}
		second.write(t, dir)
		if poll(); c.serial() != 2 || strings.Count(log.String(), "serving a new") != 1 {
			t.Errorf("after a change: certificate %d, log %q", c.serial(), log)
		}
		third.write(t, dir)
		reload <- syscall.SIGHUP
		if synctest.Wait(); c.serial() != 3 {
			t.Errorf("after a signal: certificate %d, want the new one", c.serial())
		}
	})
}

// TestCertificateFollowsALink replaces a symbolic link to the folder, as a Kubernetes
// volume does: the files keep their names, and may keep size and time.
func TestCertificateFollowsALink(t *testing.T) {
	root := t.TempDir()
	data := filepath.Join(root, "data")
	for serial, name := range map[int64]string{1: "old", 2: "new"} {
		dir := filepath.Join(root, name)
		testenv.OK(t, os.Mkdir(dir, 0o700))
		certFile, keyFile := newPair(t, serial).write(t, dir)
		for _, file := range []string{certFile, keyFile} {
			testenv.OK(t, os.Chtimes(file, time.Unix(0, 0), time.Unix(0, 0)))
		}
	}
	testenv.OK(t, os.Symlink("old", data))
	c := mustLoad(t, filepath.Join(data, "tls.crt"), filepath.Join(data, "tls.key"))
	watched(t, c, func(poll func(), _ chan<- os.Signal, _ *logBuffer) {
		testenv.OK(t, os.Symlink("new", data+".new"))
		testenv.OK(t, os.Rename(data+".new", data))
		if poll(); c.serial() != 2 {
			t.Errorf("the link leads to certificate 2, certificate %d is served", c.serial())
		}
	})
}

// Invariant 47.
func TestUnusableCertificateKeepsTheCurrentOne(t *testing.T) {
	dir := t.TempDir()
	c := newPair(t, 1).load(t, dir)
	good := newPair(t, 3)
	half := pair{cert: newPair(t, 2).cert, key: good.key}
	watched(t, c, func(poll func(), reload chan<- os.Signal, log *logBuffer) {
		logged := func() int { return strings.Count(log.String(), "level=ERROR") }
		half.write(t, dir)
		poll()
		poll()
		if c.serial() != 1 || logged() != 1 {
			t.Errorf("a bad pair: certificate %d, %d errors in the log, want the old and 1", c.serial(), logged())
		}
		reload <- syscall.SIGHUP
		if synctest.Wait(); c.serial() != 1 || logged() != 2 {
			t.Errorf("reloaded: certificate %d, %d errors in the log, want the old and 2", c.serial(), logged())
		}
		testenv.OK(t, os.Remove(filepath.Join(dir, "tls.key")))
		if poll(); c.serial() != 1 || logged() != 3 {
			t.Errorf("a missing file: certificate %d, %d errors in the log, want the old and 3", c.serial(), logged())
		}
		good.write(t, dir)
		if poll(); c.serial() != 3 || logged() != 3 {
			t.Errorf("a good pair: certificate %d, %d errors in the log, want the new and 3", c.serial(), logged())
		}
	})
}

// TestTLSVersions checks that HTTP/2 and HTTP/1.1 are negotiated, that TLS below 1.2
// is rejected, and that new connections use the new certificate.
func TestTLSVersions(t *testing.T) {
	dir := t.TempDir()
	first, second := newPair(t, 1), newPair(t, 2)
	c := first.load(t, dir)
	l := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := &drainingServer{http: &http.Server{TLSConfig: c.config(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}}
	failed := server.start([]net.Listener{l})
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(first.cert)
	trusted.AppendCertsFromPEM(second.cert)
	get := func(config *tls.Config, http2 bool) (*http.Response, error) {
		config.RootCAs, config.ServerName = trusted, "localhost"
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: http2}}
		defer client.CloseIdleConnections()
		r, err := client.Get("https://" + l.Addr().String())
		if err == nil {
			err = r.Body.Close()
		}
		return r, err
	}
	for want, http2 := range map[int]bool{1: false, 2: true} {
		if r, err := get(&tls.Config{}, http2); err != nil || r.ProtoMajor != want || r.TLS.PeerCertificates[0].SerialNumber.Int64() != 1 {
			t.Errorf("HTTP/%d: %+v, %v", want, r, err)
		}
	}
	if _, err := get(&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, false); err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("TLS 1.1: error %v, want one about the version", err)
	}
	second.write(t, dir)
	testenv.OK(t, testenv.Error(c.load()))
	if r, err := get(&tls.Config{}, true); err != nil || r.TLS.PeerCertificates[0].SerialNumber.Int64() != 2 {
		t.Errorf("after the change: %+v, %v", r, err)
	}
	testenv.Check(t, server.http.Close())
	select {
	case err := <-failed:
		t.Error(err)
	default:
	}
}
