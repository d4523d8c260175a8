package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificate makes a key and a certificate for this machine, signed by itself.
func certificate(t *testing.T) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "lethe test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return certFile, keyFile, roots
}

// replace puts a file in the place of another, as those do who renew certificates. Its time
// is another one for sure.
func replace(t *testing.T, from, to string) {
	t.Helper()
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(from, later, later); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key, roots := certificate(t)
	dir := t.TempDir()
	r := start(t, config(t, dir, nil, "--tls-cert-file", cert, "--tls-key-file", key))
	if !strings.HasPrefix(r.started.CatalogURI, "https://127.0.0.1:") {
		t.Errorf("catalog at %s", r.started.CatalogURI)
	}
	if _, err := r.try(t.Context(), "GET", "/healthz", ""); err == nil {
		t.Error("a client that does not know the certificate was served")
	}
	r.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	r.want(200, "GET", "/iceberg/v1/config", "")
	r.table()

	// A renewed certificate is served without a restart, half of one never.
	newCert, newKey, newRoots := certificate(t)
	replace(t, newCert, cert)
	r.want(200, "GET", "/healthz", "")
	r.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
	r.want(200, "GET", "/healthz", "")
	replace(t, newKey, key)
	if _, err := r.try(t.Context(), "GET", "/healthz", ""); err == nil {
		t.Error("the old certificate is still served")
	}
	r.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: newRoots}}}
	r.want(200, "GET", "/healthz", "")
	if err := r.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}

	broken := filepath.Join(t.TempDir(), "broken.pem")
	if err := os.WriteFile(broken, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := refused(t, config(t, t.TempDir(), nil, "--tls-cert-file", broken, "--tls-key-file", key)); !strings.Contains(err.Error(), "tls-cert-file") {
		t.Errorf("error %v", err)
	}
}
