package server_test

import (
	"fmt"
	"testing"
)

// A list of jobs looks at as many rows a page as it says, for a token that may see none of
// them too: the page is short, and says where it goes on.
func TestListOfJobsIsBounded(t *testing.T) {
	t.Parallel()
	r := start(t, config(t, t.TempDir(), nil, "--trash-retention=1h"))
	drive := r.tenantToken("default", `[{"drive":"/mine","actions":["read","write","delete"]}]`)
	drop := func(path string) {
		t.Helper()
		r.want(201, "PUT", "/v1/fs"+path, "x")
		r.want(200, "DELETE", "/v1/fs"+path, "")
	}
	drop("/mine/old")
	for i := range 430 {
		drop(fmt.Sprintf("/theirs/%d", i))
	}
	drop("/mine/new")
	pages, last := "", ""
	for token := ""; ; {
		var page struct {
			Jobs          []struct{ Object struct{ Path string } }
			NextPageToken *string
		}
		decode(t, drive.want(200, "GET", "/v1/jobs?kind=delete&pageSize=50&pageToken="+token, ""), &page)
		pages += fmt.Sprint(len(page.Jobs), " ")
		for _, j := range page.Jobs {
			last += j.Object.Path + " "
		}
		if page.NextPageToken == nil {
			break
		}
		token = *page.NextPageToken
	}
	if pages != "1 0 1 " || last != "/mine/new /mine/old " {
		t.Errorf("pages of %s: %s", pages, last)
	}
}
