package s3

import (
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	goclient "sluice/client"
	"sluice/e2e"
	"sluice/test/testenv"
)

// TestSDKsThroughProxies uses both interfaces over TLS on a port of its own, through the proxies
// with the configurations of deploy/.
// Invariant 52.
func TestSDKsThroughProxies(t *testing.T) {
	for name, start := range map[string]func(e2e.Front, *testing.T) string{
		"nginx":   func(f e2e.Front, t *testing.T) string { return f.StartNginx(t) },
		"HAProxy": func(f e2e.Front, t *testing.T) string { return f.StartHAProxy(t) },
		"Varnish": func(f e2e.Front, t *testing.T) string {
			socket := "unix@" + e2e.Front{Nodes: f.Nodes, S3: f.S3}.StartVarnish(t) + "/socket"
			return e2e.Front{Nodes: []string{socket}, S3: []string{socket}, Certs: f.Certs}.StartHAProxy(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.Require(t, testenv.Nginx, testenv.HAProxy, testenv.Varnish)
			h := startHosted(t, "--reads", "public", "--trusted-proxies", "127.0.0.1", "--s3-domain", "s3.example.org")
			certs := e2e.NewCertificates(t)
			at := start(e2e.Front{Nodes: []string{h.Host}, S3: []string{strings.TrimPrefix(h.S3, "http://")}, Certs: certs}, t)
			_, port, err := net.SplitHostPort(at)
			testenv.OK(t, err)
			p := proxied{h, certs, certs.Client(1), "https://s3.example.org:" + port, "https://blobs.example.org:" + port + h.Base}
			p.http.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", at)
			}
			e2e.Await(t, "the proxy does not lead to the service", func() bool {
				status, _, _ := p.ask(http.MethodGet, p.native+"/v1/info")
				return status == http.StatusOK
			})
			p.python(t)
			p.amazon(t)
			p.nativeClient(t)
		})
	}
}

// proxied is a service behind a proxy.
type proxied struct {
	*hosted
	certs      *e2e.Certificates
	http       *http.Client
	s3, native string // URLs
}

// ask sends a request of a client that takes responses in gzip.
func (p proxied) ask(method, url string, h ...string) (status int, header http.Header, body string) {
	r := testenv.Must(http.NewRequestWithContext(p.t.Context(), method, url, nil))(p.t)
	r.Header.Set("Accept-Encoding", "gzip")
	for i := 0; i < len(h); i += 2 {
		r.Header.Set(h[i], h[i+1])
	}
	res, err := p.http.Do(r)
	if err != nil {
		return 0, nil, err.Error()
	}
	data := testenv.Must(io.ReadAll(res.Body))(p.t)
	testenv.OK(p.t, res.Body.Close())
	return res.StatusCode, res.Header, string(data)
}

// python runs the program over boto3, whose bodies no signature covers over TLS.
func (p proxied) python(t *testing.T) {
	c := newClient(t, p.Server)
	c.write("sitecustomize.py", `import socket
resolve = socket.getaddrinfo
socket.getaddrinfo = lambda host, *more, **named: resolve("127.0.0.1" if str(host).endswith("example.org") else host, *more, **named)
`)
	c.environ = append(c.environ, "S3="+p.s3, "PYTHONPATH="+c.dir, "AWS_CA_BUNDLE="+p.certs.Cert(), "SSL_CERT_FILE="+p.certs.Cert(),
		"AWS_ACCESS_KEY_ID="+p.admin, "AWS_SECRET_ACCESS_KEY="+p.secret)
	script := testenv.Must(filepath.Abs("testdata/sdk.py"))(t)
	testenv.Equal(t, c.sh("/usr/bin/python3 '"+script+"'"), "ok\n", "the program's output")
}

// amazon uses Amazon's SDK for Go with buckets as hosts.
func (p proxied) amazon(t *testing.T) {
	ctx, bucket := t.Context(), aws.String("team")
	c := awsClient(p.Server, p.admin, p.secret, func(o *awss3.Options) {
		o.BaseEndpoint, o.UsePathStyle, o.HTTPClient = aws.String(p.s3), false, p.http
	})
	page := strings.Repeat("<p>compressible", 1000)
	meta := map[string]string{"under_score": "a", "do.t": "b"}
	put := testenv.Must(c.PutObject(ctx, &awss3.PutObjectInput{Bucket: bucket, Key: aws.String("a//b_c/page 1.html"), Body: strings.NewReader(page), ContentType: aws.String("text/html"), Metadata: meta}))(t)
	got := testenv.Must(c.GetObject(ctx, &awss3.GetObjectInput{Bucket: bucket, Key: aws.String("a//b_c/page 1.html"), IfMatch: put.ETag}))(t)
	testenv.Equal(t, string(testenv.Must(io.ReadAll(got.Body))(t)) == page, true, "the bytes")
	if !maps.Equal(got.Metadata, meta) {
		t.Errorf("the metadata is %v, want %v", got.Metadata, meta)
	}
	presign := awss3.NewPresignClient(c)
	upload := testenv.Must(presign.PresignPutObject(ctx, &awss3.PutObjectInput{Bucket: bucket, Key: aws.String("presigned")}))(t)
	status, _, body := p.ask(http.MethodPut, upload.URL)
	testenv.Equal(t, status, http.StatusOK, "a presigned upload: %s", body)

	// No proxy changes the stored bytes, nor their ETag.
	for name, coding := range map[string]*string{"plain": nil, "coded": aws.String("gzip")} {
		put := testenv.Must(c.PutObject(ctx, &awss3.PutObjectInput{Bucket: bucket, Key: &name, Body: strings.NewReader(page), ContentType: aws.String("text/html"), ContentEncoding: coding}))(t)
		url := testenv.Must(presign.PresignGetObject(ctx, &awss3.GetObjectInput{Bucket: bucket, Key: &name}))(t).URL
		for _, accepted := range []string{"gzip", "identity"} {
			for _, url := range []string{url, p.native + e2e.BlobTarget("team", name)} {
				status, header, body := p.ask(http.MethodGet, url, "Accept-Encoding", accepted)
				if status != http.StatusOK || body != page || header.Get("ETag") != aws.ToString(put.ETag) {
					t.Errorf("%s, which accepts %s: %d with %d of %d bytes and the ETag %s, want %s", url, accepted, status, len(body), len(page), header.Get("ETag"), aws.ToString(put.ETag))
				}
			}
		}
	}
	_, err := c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: bucket, Key: aws.String("none")})
	testenv.Equal(t, codeOf(err), "NotFound", "an object that does not exist: %v", err)
}

// nativeClient uses this project's client, and then conditions of a browser, which takes responses
// in gzip.
func (p proxied) nativeClient(t *testing.T) {
	key := p.NewKey("--scopes", "read,write", "--accounts", "team")
	c := testenv.Must(goclient.New(p.native, goclient.Options{Key: key, Transport: p.http.Transport}))(t)
	meta := map[string]string{"under_score": "a", "do.t": "b"}
	const name = "a//b_c/page 2.html"
	blob := testenv.Must(c.Put(t.Context(), "team", name, strings.NewReader(strings.Repeat("<p>", 5000)), goclient.PutOptions{ContentType: "text/html", Metadata: meta}))(t)
	head := testenv.Must(c.Head(t.Context(), "team", name))(t)
	if !maps.Equal(head.Metadata, meta) {
		t.Errorf("the metadata is %v, want %v", head.Metadata, meta)
	}
	_, header, _ := p.ask(http.MethodGet, p.native+e2e.BlobTarget("team", name))
	testenv.Equal(t, header.Get("ETag"), blob.ETag, "the ETag")
	status, _, body := p.ask(http.MethodDelete, p.native+e2e.BlobTarget("team", name), "Authorization", "Bearer "+key, "If-Match", header.Get("ETag"))
	testenv.Equal(t, status, http.StatusNoContent, "a DELETE with that ETag: %s", body)
}

// TestHAProxyStartsWithFewFiles checks that HAProxy takes deploy/haproxy.cfg as it is where a
// process may have 20,000 files.
func TestHAProxyStartsWithFewFiles(t *testing.T) {
	testenv.Require(t, testenv.HAProxy)
	t.Parallel()
	dir := t.TempDir()
	program := testenv.Must(testenv.HAProxyPath())(t)
	certs := e2e.NewCertificates(t)
	c := &client{t: t, dir: dir}
	c.write("haproxy.cfg", e2e.Deployed(t, "haproxy.cfg", [][2]string{{"/etc/haproxy/blobs.pem", filepath.Join(dir, "blobs.pem")}, {"bind :443", "bind unix@" + filepath.Join(dir, "socket")}}))
	command := exec.CommandContext(t.Context(), "sh", "-c", `cat "$1" "$2" >blobs.pem && ulimit -n 20000 && exec "$3" -db -f haproxy.cfg`, "sh", certs.Cert(), certs.Key(), program)
	command.Dir = dir
	log := &e2e.LogBuffer{}
	command.Stdout, command.Stderr = log, log
	testenv.OK(t, command.Start())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	e2e.Await(t, "HAProxy does not listen", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("HAProxy has ended: %v\n%s", err, log)
		default:
		}
		connection, err := net.Dial("unix", filepath.Join(dir, "socket"))
		return err == nil && connection.Close() == nil
	})
	testenv.OK(t, command.Process.Kill())
	if err := <-ended; command.ProcessState == nil {
		t.Error(err)
	}
}
