package secret

import (
	"encoding/json"
	"fmt"
	"log/slog"
)

// Text is a secret that does not show itself: not in logs, not by any verb of fmt, not
// in JSON.
type Text struct{ plain string }

const hidden = "[secret]"

// NewText hides a secret.
func NewText(plain string) Text { return Text{plain} }

// Reveal returns the secret, for the one place that needs it.
func (t Text) Reveal() string { return t.plain }

// IsZero reports whether there is none.
func (t Text) IsZero() bool { return t.plain == "" }

// String returns a fixed text.
func (Text) String() string { return hidden }

// Format writes a fixed text, whatever the verb.
func (Text) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(hidden)) }

// LogValue is what slog shows.
func (Text) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalJSON writes a fixed text.
func (Text) MarshalJSON() ([]byte, error) { return json.Marshal(hidden) }

// UnmarshalJSON takes a secret in.
func (t *Text) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, &t.plain) }
