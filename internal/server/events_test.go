package server_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

// What a purge tells names who dropped what and how, as the drop's own event does.
func TestPurgeEventsSayWhoseTheyAre(t *testing.T) {
	t.Parallel()
	for name, header := range map[string][]string{"async=false": nil, "async=true": {"X-Gravitino-Async-Purge", "true"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, config(t, t.TempDir(), nil))
			r.table()
			job := r.do("DELETE", space+"/n/tables/t?purgeRequested=true", "", header...).header.Get("X-Lethe-Job")
			const completed = `msg="purge completed"`
			for deadline := time.Now().Add(2 * time.Minute); !strings.Contains(r.log.String(), completed); {
				if time.Now().After(deadline) {
					t.Fatalf("no purge completed in %s", r.log.String())
				}
				r.do("GET", "/v1/jobs/"+job+"?wait=1", "")
			}
			if err := r.stop(); err != nil {
				t.Error(err)
			}
			for _, event := range []string{"msg=audit action=table.drop", `msg="purge started"`, completed} {
				var line string
				for l := range strings.Lines(r.log.String()) {
					if strings.Contains(l, event) {
						line = l
					}
				}
				for _, attr := range []string{"principal=admin", "purgeRequested=true", name, "job=" + job, "requestId="} {
					if !strings.Contains(line, attr) {
						t.Errorf("%s lacks %s: %s", event, attr, line)
					}
				}
				if event != "msg=audit action=table.drop" && (!strings.Contains(line, `namespace="[\"n\"]"`) || !strings.Contains(line, "table=t ")) {
					t.Errorf("%s lacks its identifier: %s", event, line)
				}
			}
		})
	}
}

// A purge that fails says the same.
func TestFailedPurgeEvents(t *testing.T) {
	t.Parallel()
	r := start(t, config(t, t.TempDir(), nil))
	r.table()
	var loaded struct {
		Metadata string `json:"metadata-location"`
	}
	if err := json.Unmarshal([]byte(r.want(200, "GET", space+"/n/tables/t", "").body), &loaded); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(strings.TrimPrefix(loaded.Metadata, "file://")); err != nil {
		t.Fatal(err)
	}
	r.do("DELETE", space+"/n/tables/t?purgeRequested=true", "")
	for _, attr := range []string{"principal=admin", "purgeRequested=true", "async=false", "job=purge-1", "table=t "} {
		var found bool
		for l := range strings.Lines(r.log.String()) {
			found = found || strings.Contains(l, `msg="purge attempt failed"`) && strings.Contains(l, attr)
		}
		if !found {
			t.Errorf("no failed attempt with %s in %s", attr, r.log.String())
		}
	}
}
