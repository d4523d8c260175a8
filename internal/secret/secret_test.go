package secret_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lethe-project/lethe/internal/secret"
)

const (
	key1 = "k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	key2 = "k2:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
)

func ring(t *testing.T, text string) *secret.Ring {
	t.Helper()
	r, err := secret.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestParse(t *testing.T) {
	t.Parallel()
	const plain = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	for _, tt := range []struct{ name, text, want string }{
		{"one", key1, ""},
		{"lines with a comment", "# keys\n\n " + key1 + " \r\n" + key2 + "\n", ""},
		{"commas, as in the environment", key1 + ", " + key2, ""},
		{"a new one", secret.NewKey(), ""},
		{"nothing", "", "no key"},
		{"only comments", "# " + key1, "no key"},
		{"without an id", plain + "=", "ID:BASE64"},
		{"an empty id", ":" + plain + "=", "its id"},
		{"an id with a space", "k 1:" + plain + "=", "its id"},
		{"no base64", "k1:!" + plain, "k1 is not 32 bytes"},
		{"too short", "k1:AAAA", "k1 is not 32 bytes"},
		{"one id twice", key1 + "\n" + key1, "k1 stands twice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := secret.Parse(tt.text)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want one with %q", err, tt.want)
			case err != nil && strings.Contains(err.Error(), plain):
				t.Errorf("the message shows the key: %v", err)
			}
		})
	}
}

func TestSealOpen(t *testing.T) {
	t.Parallel()
	const plain = "geheim"
	mine := secret.Binding{Tenant: 1, Warehouse: 2, Purpose: "p"}
	one := ring(t, key1)
	id, sealed := one.Seal([]byte(plain), mine)
	if id != "k1" || one.Current() != "k1" {
		t.Errorf("sealed with %s", id)
	}
	if _, again := one.Seal([]byte(plain), mine); string(again) == string(sealed) {
		t.Error("the nonce is not random")
	}
	changed := append([]byte{}, sealed...)
	changed[len(changed)/2] ^= 1
	for _, tt := range []struct {
		name   string
		ring   *secret.Ring
		id     secret.KeyID
		sealed []byte
		at     secret.Binding
		want   error
	}{
		{"its own", one, "k1", sealed, mine, nil},
		{"after a rotation", ring(t, key2+"\n"+key1), "k1", sealed, mine, nil},
		{"without the key", ring(t, key2), "k1", sealed, mine, secret.ErrNoKey},
		{"another key of that id", ring(t, strings.Replace(key2, "k2", "k1", 1)), "k1", sealed, mine, secret.ErrDamaged},
		{"another id", ring(t, key1+","+key2), "k2", sealed, mine, secret.ErrDamaged},
		{"one bit", one, "k1", changed, mine, secret.ErrDamaged},
		{"cut", one, "k1", sealed[:5], mine, secret.ErrDamaged},
		{"nothing", one, "k1", nil, mine, secret.ErrDamaged},
		{"another tenant", one, "k1", sealed, secret.Binding{Tenant: 2, Warehouse: 2, Purpose: "p"}, secret.ErrDamaged},
		{"another warehouse", one, "k1", sealed, secret.Binding{Tenant: 1, Warehouse: 1, Purpose: "p"}, secret.ErrDamaged},
		{"another purpose", one, "k1", sealed, secret.Binding{Tenant: 1, Warehouse: 2, Purpose: "q"}, secret.ErrDamaged},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := tt.ring.Open(tt.id, tt.sealed, tt.at)
			if !errors.Is(err, tt.want) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if err == nil && string(got) != plain {
				t.Errorf("opened as %q", got)
			}
			if err != nil && !strings.Contains(err.Error(), string(tt.id)) {
				t.Errorf("the message does not name key %s: %v", tt.id, err)
			}
		})
	}
}

func TestLoadOrMake(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret.key")
	if _, err := secret.Load(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	var wg sync.WaitGroup
	ids, made := make([]secret.KeyID, 8), make([]bool, 8)
	for i := range ids {
		wg.Go(func() {
			r, fresh, err := secret.LoadOrMake(path)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i], made[i] = r.Current(), fresh
		})
	}
	wg.Wait()
	makers := 0
	for i := range ids {
		if ids[i] != ids[0] {
			t.Errorf("two servers have two keys: %s and %s", ids[0], ids[i])
		}
		if made[i] {
			makers++
		}
	}
	if makers != 1 {
		t.Errorf("%d say that they made it", makers)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("the folder holds %v, %v", left, err)
	}
	if err := os.WriteFile(path, []byte("k1:AAAA"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := secret.LoadOrMake(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a damaged file: %v", err)
	}
}

func TestTextHides(t *testing.T) {
	t.Parallel()
	const plain = "geheim"
	s := struct{ Secret secret.Text }{secret.NewText(plain)}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", s.Secret, "struct", s)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s.Secret, "struct", s)
	body, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{
		fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s %q %x %d", s, s, s, s, s, s, s), fmt.Sprintf("%x %s", s.Secret, s.Secret), string(body), log.String(),
	} {
		if strings.Contains(shown, plain) || strings.Contains(shown, fmt.Sprintf("%x", plain)) {
			t.Errorf("shows it: %s", shown)
		}
	}
	if s.Secret.Reveal() != plain || s.Secret.IsZero() || !(secret.Text{}).IsZero() {
		t.Error("it is lost")
	}
	if err := json.Unmarshal([]byte(`{"Secret":"other"}`), &s); err != nil || s.Secret.Reveal() != "other" {
		t.Errorf("read as %q, %v", s.Secret.Reveal(), err)
	}
}
