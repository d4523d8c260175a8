package server

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// tlsConfig reads the certificate before anything is served; nil means plain HTTP.
func (s *server) tlsConfig() (*tls.Config, error) {
	if s.set.TLSCertFile == "" {
		return nil, nil
	}
	c := &certificate{certFile: s.set.TLSCertFile, keyFile: s.set.TLSKeyFile, log: s.log}
	if err := c.load(c.times()); err != nil {
		return nil, fmt.Errorf("server: settings tls-cert-file and tls-key-file: %w", err)
	}
	return &tls.Config{GetCertificate: c.current, MinVersion: tls.VersionTLS12}, nil
}

// certificate is the pair in two files. A renewed one is served from the next handshake on:
// those who renew them every few weeks restart nothing.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu   sync.Mutex
	read [2]time.Time // of the files that were read last, well or not
	pair *tls.Certificate
}

// times are those of the last changes; zero where there is no file.
func (c *certificate) times() (times [2]time.Time) {
	for i, path := range []string{c.certFile, c.keyFile} {
		if info, err := os.Stat(path); err == nil {
			times[i] = info.ModTime()
		}
	}
	return times
}

func (c *certificate) load(times [2]time.Time) error {
	c.read = times
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err == nil {
		c.pair = &pair
	}
	return err
}

// current goes on with the pair it has while the files hold none, or halves of two.
func (c *certificate) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if times := c.times(); times != c.read {
		if err := c.load(times); err != nil {
			c.log.Warn("changed certificate not read, the one before is served", "error", err)
		} else {
			c.log.Info("changed certificate read", "certificate", c.certFile)
		}
	}
	return c.pair, nil
}
