package s3_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/s3"
)

// tokens is a token service: each role assumed gives another key.
type tokens struct {
	*httptest.Server
	asked atomic.Int64
	forms chan map[string]string
}

func newTokens(t *testing.T, status int) *tokens {
	t.Helper()
	s := &tokens{forms: make(chan map[string]string, 10)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := s.asked.Add(1)
		form := map[string]string{}
		for _, key := range []string{"Action", "RoleArn", "RoleSessionName", "ExternalId"} {
			form[key] = r.PostFormValue(key)
		}
		s.forms <- form
		if status != http.StatusOK {
			w.WriteHeader(status)
			_, _ = fmt.Fprint(w, `<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>`)
			return
		}
		_, _ = fmt.Fprintf(w, `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
			<AccessKeyId>ASIA%d</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>token-%d</SessionToken><Expiration>%s</Expiration>
			</Credentials></AssumeRoleResult></AssumeRoleResponse>`, n, n, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(s.Close)
	return s
}

func granting(grants ...s3.Grant) func(context.Context) (s3.Grant, error) {
	var n atomic.Int64
	return func(context.Context) (s3.Grant, error) {
		at := min(int(n.Add(1)), len(grants)) - 1
		return grants[at], nil
	}
}

// Credentials follow what they are made of, and are never believed for long.
func TestRefreshed(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIACHAIN")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "chain")
	first, second := s3.Grant{AccessKeyID: "AKIA1", SecretAccessKey: "a"}, s3.Grant{AccessKeyID: "AKIA2", SecretAccessKey: "b", SessionToken: "t"}
	p := s3.Refreshed(granting(first, second, s3.Grant{}))
	for _, want := range []string{"AKIA1 a ", "AKIA2 b t", "AKIACHAIN chain "} {
		c, err := p.Retrieve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := c.AccessKeyID + " " + c.SecretAccessKey + " " + c.SessionToken; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if left := time.Until(c.Expires); !c.CanExpire || left <= 0 || left > time.Minute {
			t.Errorf("%s holds for %v", want, left)
		}
	}
}

func TestAssumeRole(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIACHAIN")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "chain")
	sts := newTokens(t, http.StatusOK)
	role := s3.Grant{RoleARN: "arn:aws:iam::1:role/x", ExternalID: "e", SessionName: "n", STSEndpoint: sts.URL, Region: "eu-test-1"}
	other := role
	other.ExternalID, other.SessionName = "", ""
	p := s3.Refreshed(granting(role, role, role, other))
	for i, want := range []string{"ASIA1", "ASIA1", "ASIA1", "ASIA2"} {
		c, err := p.Retrieve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if c.AccessKeyID != want || c.SessionToken == "" {
			t.Errorf("time %d: key %s, want %s: a role is assumed once for a session, and anew when it is another one", i, c.AccessKeyID, want)
		}
	}
	for _, want := range []string{"AssumeRole arn:aws:iam::1:role/x n e", "AssumeRole arn:aws:iam::1:role/x lethe "} {
		f := <-sts.forms
		if got := f["Action"] + " " + f["RoleArn"] + " " + f["RoleSessionName"] + " " + f["ExternalId"]; got != want {
			t.Errorf("asked for %q, want %q", got, want)
		}
	}
}

// What cannot be had is the store's trouble as a whole: no key is failed for it, and
// nothing is taken for missing.
func TestCredentialsThatCannotBeHad(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIACHAIN")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "chain")
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("a request was sent: %s %s", r.Method, r.URL)
	}))
	t.Cleanup(store.Close)
	sts := newTokens(t, http.StatusForbidden)
	const hidden = "geheim"
	for name, current := range map[string]func(context.Context) (s3.Grant, error){
		"the database is away": func(context.Context) (s3.Grant, error) { return s3.Grant{}, errors.New("the database is away") },
		"the role is refused": granting(s3.Grant{
			RoleARN: "arn:aws:iam::1:role/x", ExternalID: hidden, STSEndpoint: sts.URL, Region: "eu-test-1",
		}),
	} {
		b, err := s3.Open(t.Context(), s3.Config{Bucket: "bucket", Endpoint: store.URL, Region: "eu-test-1", Credentials: s3.Refreshed(current)})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, err = b.Stat(t.Context(), "x")
		if blob.ClassOf(err) != blob.Unavailable || strings.Contains(err.Error(), hidden) {
			t.Errorf("%s: %v", name, err)
		}
		for _, r := range b.DeleteMany(t.Context(), []blob.Key{"x"}) {
			if r.Outcome != blob.Failed || blob.ClassOf(r.Err) != blob.Unavailable {
				t.Errorf("%s: delete %v, %v", name, r.Outcome, r.Err)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
