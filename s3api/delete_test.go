package s3api

import (
	"fmt"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// sentResult is a report of DeleteObjects.
type sentResult struct {
	Deleted []struct{ Key string }
	Error   []struct{ Key, Code, Message string }
}

func (s *service) deleted(t *testing.T, objects string) sentResult {
	t.Helper()
	return decodedAs[sentResult](t, s.want(t, 200, "POST", "/bucket?delete", "<Delete>"+objects+"</Delete>").body)
}

// TestDeletesOfMany: up to 1,000 keys are deleted, each is reported, and one's error stops none.
func TestDeletesOfMany(t *testing.T) {
	s := newService(t)
	var objects strings.Builder
	for i := range 1000 {
		if i%10 == 0 { // who deletes need not know which keys exist
			s.want(t, 200, "PUT", fmt.Sprintf("/bucket/%d", i), "x")
		}
		fmt.Fprintf(&objects, "<Object><Key>%d</Key></Object>", i)
	}
	s.refused(t, 400, "MalformedXML", "POST", "/bucket?delete", "<Delete>"+objects.String()+"<Object><Key>more</Key></Object></Delete>")
	result := s.deleted(t, objects.String())
	testenv.Equal(t, len(result.Deleted), 1000, "keys that are reported: %v", result.Error)
	testenv.Equal(t, result.Deleted[999].Key, "999", "the order is the request's")
	testenv.Equal(t, decodedAs[sentPage](t, s.want(t, 200, "GET", "/bucket?list-type=2", "").body).KeyCount, 0, "keys that are left")
}

func TestDeletesAreReported(t *testing.T) {
	s := newService(t)
	for _, key := range []string{"a", "b", "c"} {
		s.want(t, 200, "PUT", "/bucket/"+key, key)
	}
	result := s.deleted(t, "<Quiet>true</Quiet><Object><Key>a</Key></Object><Object><Key>dir/</Key></Object>"+
		"<Object><Key>b</Key><ETag>&quot;other&quot;</ETag></Object><Object><Key>c</Key><VersionId>1</VersionId></Object><Object><Key>"+strings.Repeat("k", 1025)+"</Key></Object>")
	testenv.Equal(t, len(result.Deleted), 0, "what is reported quietly")
	var codes []string
	for _, e := range result.Error {
		codes = append(codes, fmt.Sprintf("%.1s %s", e.Key, e.Code))
	}
	testenv.Equal(t, strings.Join(codes, ", "), "b PreconditionFailed, c NoSuchVersion, k KeyTooLongError", "the errors")
	result = s.deleted(t, "<Object><Key>b</Key><ETag>"+strings.Trim(etagOf("b"), `"`)+"</ETag><Size>1</Size></Object>")
	testenv.Equal(t, len(result.Deleted), 1, "what has the ETag and the size")
	s.want(t, 404, "HEAD", "/bucket/b", "")
	s.want(t, 200, "HEAD", "/bucket/c", "")
}

// TestHugeDocuments: a document that is too long, too deep, or that would expand is refused, and
// nothing that it names is deleted.
func TestHugeDocuments(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket/a", "x")
	lol := `<!DOCTYPE d [<!ENTITY a "a">` + strings.Repeat(`<!ENTITY b "&a;&a;">`, 20) + `]>`
	for name, body := range map[string]string{
		"entities": lol + "<Delete><Object><Key>&b;</Key></Object></Delete>",
		"deep":     strings.Repeat("<Delete>", 10_000) + strings.Repeat("</Delete>", 10_000),
		"many":     "<Delete>" + strings.Repeat("<x/>", 300_000) + "<Object><Key>a</Key></Object></Delete>",
		"cut":      "<Delete><Object><Key>a</Key></Object>",
		"two":      "<Delete><Object><Key>a</Key><Key>b</Key></Object></Delete>",
	} {
		t.Run(name, func(t *testing.T) { s.refused(t, 400, "MalformedXML", "POST", "/bucket?delete", body) })
	}
	s.refused(t, 400, "EntityTooLarge", "POST", "/bucket?delete", "<Delete>"+strings.Repeat(" ", mostDeleteBody)+"</Delete>", "Expect", "100-continue")
	s.want(t, 200, "HEAD", "/bucket/a", "")
}
