package iceberg_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const cleanups = "/api/metalakes/default/catalogs/default/cleanups"

func TestCleanups(t *testing.T) {
	t.Parallel()
	each(t, options{paused: true}, func(t *testing.T, b *bench) {
		for _, name := range []string{"t1", "t2", "t3"} {
			path := b.table(b.namespace("n", "m"), name)
			b.do("DELETE", path+"?purgeRequested=true", "", asyncHeader, "true").want(204)
		}
		b.do("DELETE", b.table(b.namespace("o"), "t1")+"?purgeRequested=true", "", asyncHeader, "true").want(204)

		names := func(a *answer) (out []string) {
			for _, row := range a.get("cleanups").([]any) {
				r := row.(map[string]any)
				out = append(out, strings.Join(strs(r["namespace"]), "/")+"/"+fmt.Sprint(r["table"]))
			}
			return out
		}
		for _, c := range []struct {
			name, query string
			want        []string
		}{
			{"all, newest first", "", []string{"o/t1", "n/m/t3", "n/m/t2", "n/m/t1"}},
			{"a namespace", "?namespace=n%1Fm", []string{"n/m/t3", "n/m/t2", "n/m/t1"}},
			{"its parent is another", "?namespace=n", nil},
			{"a table", "?table=t1", []string{"o/t1", "n/m/t1"}},
			{"both", "?namespace=n%1fm&table=t1", []string{"n/m/t1"}},
			{"a state", "?state=PENDING&table=t2", []string{"n/m/t2"}},
			{"another state", "?state=FAILED", nil},
			{"an unknown table", "?table=x", nil},
			{"empty filters", "?namespace=&table=&state=&pageToken=", []string{"o/t1", "n/m/t3", "n/m/t2", "n/m/t1"}},
		} {
			t.Run(c.name, func(t *testing.T) {
				b := b.on(t)
				a := b.do("GET", cleanups+c.query, "").want(200)
				if got := names(a); !slices.Equal(got, c.want) {
					t.Errorf("%q, want %q", got, c.want)
				}
			})
		}
		a := b.do("GET", cleanups+"?table=t2", "").want(200)
		for field, want := range map[string]string{"objectType": "TABLE", "state": "PENDING", "createdBy": "ann", "metalake": "default", "catalog": "default"} {
			if got := a.text("cleanups", 0, field); got != want {
				t.Errorf("%s %q, want %q", field, got, want)
			}
		}

		var paged []string
		for token, n := "", 0; ; n++ {
			a := b.do("GET", cleanups+"?pageSize=1&pageToken="+token, "").want(200)
			paged = append(paged, names(a)...)
			if token = a.text("nextPageToken"); token == "" || n > 10 {
				break
			}
		}
		if want := []string{"o/t1", "n/m/t3", "n/m/t2", "n/m/t1"}; !slices.Equal(paged, want) {
			t.Errorf("pages hold %q, want %q", paged, want)
		}

		enc := base64.RawURLEncoding.EncodeToString
		for _, c := range []struct {
			name, method, target string
			status               int
			kind                 string
		}{
			{"an unknown state", "GET", cleanups + "?state=LOST", 400, "BadRequestException"},
			{"a state in small letters", "GET", cleanups + "?state=pending", 400, "BadRequestException"},
			{"a page of nothing", "GET", cleanups + "?pageSize=0", 400, "BadRequestException"},
			{"a page of words", "GET", cleanups + "?pageSize=x", 400, "BadRequestException"},
			{"a garbage token", "GET", cleanups + "?pageToken=x", 400, "BadRequestException"},
			{"a token of another catalog", "GET", cleanups + "?pageToken=" + enc([]byte("other\n5")), 400, "BadRequestException"},
			{"a token before the first", "GET", cleanups + "?pageToken=" + enc([]byte("default\n0")), 400, "BadRequestException"},
			{"a token of words", "GET", cleanups + "?pageToken=" + enc([]byte("default\nx")), 400, "BadRequestException"},
			{"a namespace with an empty level", "GET", cleanups + "?namespace=a%1F", 400, "BadRequestException"},
			{"a namespace with NUL", "GET", cleanups + "?namespace=%00", 400, "BadRequestException"},
			{"a namespace of invalid UTF-8", "GET", cleanups + "?namespace=%FF", 400, "BadRequestException"},
			{"a namespace of bad encoding", "GET", cleanups + "?namespace=%zz", 400, "BadRequestException"},
			{"a table with NUL", "GET", cleanups + "?table=%00", 400, "BadRequestException"},
			{"a table of invalid UTF-8", "GET", cleanups + "?table=%FF", 400, "BadRequestException"},
			{"another metalake", "GET", "/api/metalakes/other/catalogs/default/cleanups", 404, "NotFoundException"},
			{"another catalog", "GET", "/api/metalakes/default/catalogs/other/cleanups", 404, "NoSuchWarehouseException"},
			{"another path", "GET", "/api/metalakes/default/catalogs/default/other", 404, "NotFoundException"},
			{"one by id", "GET", cleanups + "/1", 404, "NotFoundException"},
			{"a change", "POST", cleanups, 406, "UnsupportedOperationException"},
		} {
			t.Run(c.name, func(t *testing.T) {
				b := b.on(t)
				a := b.do(c.method, c.target, "")
				a.want(c.status, c.kind)
			})
		}
	})
}
