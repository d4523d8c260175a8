package s3

import (
	"io"
	"net/http"

	"github.com/lethe-project/lethe/internal/pace"
)

// paced gives the turn of a paced call back while the store works, and takes one for each
// part of the answer: decoding it is most of what a bulk delete costs. Calls without a
// section pass.
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

// bodyPart is how much of an answer is read at once, about 300 keys. What it hands out
// is cut smaller by the decoders' own buffers.
const bodyPart = 32 << 10

// pacedBody reads without a turn, and hands out with one.
type pacedBody struct {
	io.ReadCloser
	section *pace.Section
	part    []byte
	unread  []byte
	err     error
}

// Read hands out what was read, or reads on.
func (b *pacedBody) Read(p []byte) (int, error) {
	if len(b.unread) == 0 && b.err == nil {
		if b.part == nil {
			b.part = make([]byte, bodyPart)
		}
		b.section.Pause()
		var n int
		n, b.err = b.ReadCloser.Read(b.part)
		b.unread = b.part[:n]
	}
	b.section.Step()
	n := copy(p, b.unread)
	b.unread = b.unread[n:]
	if len(b.unread) > 0 {
		return n, nil
	}
	return n, b.err
}
