package files

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lethe-project/lethe/internal/fault"
)

func invalid(format string, args ...any) error {
	return fault.New("files", fault.Invalid, "", format, args...)
}

// decode reads a JSON body into v; what it does not know it refuses: a typo must not
// change what a request does. An empty body is an empty object.
func (e *edge) decode(c *call, v any) error {
	text, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, e.MaxBody))
	if err != nil {
		return fault.Wrap("files.decode", fault.Invalid, "", err, "the body could not be read, or is longer than %d bytes", e.MaxBody)
	}
	if !utf8.Valid(text) { // the decoder would replace what is not: a name would be another one
		return invalid("the body is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	switch err := dec.Decode(v); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fault.Wrap("files.decode", fault.Invalid, "", err, "the body is not the JSON that this request takes")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) { // More would take a closing bracket for the end
		return invalid("the body holds more than one value")
	}
	return nil
}

// patient gives a body as much time as it needs, as long as it brings something: the
// server's limit for reading a request is meant for small ones.
type patient struct {
	body io.Reader
	rc   *http.ResponseController
	idle time.Duration
}

func (e *edge) body(c *call) io.Reader {
	return &patient{c.r.Body, http.NewResponseController(c.w), e.Idle}
}

// Read reads from the body.
func (p *patient) Read(b []byte) (int, error) {
	_ = p.rc.SetReadDeadline(time.Now().Add(p.idle)) // a recorder in a test has no deadlines
	n, err := p.body.Read(b)
	if errors.Is(err, io.EOF) {
		// The server reads on, without a limit, to learn whether the client hangs up. One set
		// here, by a store that asks again after the end, would look like that.
		_ = p.rc.SetReadDeadline(time.Time{})
	} else if err != nil {
		err = fault.Wrap("files.Read", fault.Invalid, "BodyCutShort", err, "the body ended early")
	}
	return n, err
}

// checksum is the SHA-256 that the client says its body has, in hexadecimal: from
// X-Lethe-Sha256, or from Content-Digest (RFC 9530 section 2); empty when it says none.
func checksum(h http.Header) (string, error) {
	if text := h.Get("X-Lethe-Sha256"); text != "" {
		raw, err := hex.DecodeString(text)
		if err != nil || len(raw) != 32 {
			return "", invalid("X-Lethe-Sha256 is not 64 hexadecimal digits")
		}
		return hex.EncodeToString(raw), nil
	}
	for item := range strings.SplitSeq(strings.Join(h.Values("Content-Digest"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		if !strings.EqualFold(name, "sha-256") {
			continue
		}
		raw, err := base64.StdEncoding.DecodeString(strings.Trim(value, ":"))
		if err != nil || len(raw) != 32 || !strings.HasPrefix(value, ":") {
			return "", invalid("the sha-256 of Content-Digest is not :base64: of 32 bytes")
		}
		return hex.EncodeToString(raw), nil
	}
	return "", nil
}

// flag reads a boolean parameter; one without a value is true.
func (c *call) flag(name string) (bool, error) {
	if !c.query.Has(name) {
		return false, nil
	}
	switch c.query.Get(name) {
	case "", "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	}
	return false, invalid("%s is true or false", name)
}

// number reads a whole number of at least least.
func (c *call) number(name string, least, most, absent int) (int, error) {
	text := c.query.Get(name)
	if text == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return 0, invalid("%s is a whole number of at least %d", name, least)
	}
	return min(n, most), nil
}

// mode reads permission bits in octal; 0 when there are none.
func mode(text string) (uint32, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 8, 32)
	if err != nil || n > 0o7777 {
		return 0, invalid("a mode is permission bits in octal, 0 to 7777")
	}
	return uint32(n), nil
}
