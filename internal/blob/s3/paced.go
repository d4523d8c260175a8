package s3

import (
	"io"
	"net/http"

	"github.com/lethe-project/lethe/internal/pace"
)

// paced gives the turn of a paced call back while the store works and its answer is on the
// way. Who computes much with the answer takes one again. Calls without a section pass.
type paced struct{ next http.RoundTripper }

// RoundTrip sends a request.
func (p paced) RoundTrip(r *http.Request) (*http.Response, error) {
	section := pace.Of(r.Context())
	if section == nil {
		return p.next.RoundTrip(r)
	}
	section.Pause()
	resp, err := p.next.RoundTrip(r)
	if resp != nil {
		resp.Body = &pacedBody{ReadCloser: resp.Body, section: section}
	}
	return resp, err
}

// pacedBody reads without a turn.
type pacedBody struct {
	io.ReadCloser
	section *pace.Section
}

// Read reads on.
func (b *pacedBody) Read(p []byte) (int, error) {
	b.section.Pause()
	return b.ReadCloser.Read(p)
}
