package document

import (
	"bytes"
	"encoding/xml"
)

// Setting returns a document with a bucket's setting: member, if it is not empty, is its
// only element, and has the text.
func Setting(root, member, text string) any {
	s := setting{XMLName: xml.Name{Space: namespace, Local: root}}
	if member != "" {
		var b bytes.Buffer
		element(&b, member, text)
		s.Inner = b.String()
	}
	return s
}

type setting struct {
	XMLName xml.Name
	Inner   string `xml:",innerxml"`
}

// Encryption returns the document for buckets that encrypt every object.
func Encryption(algorithm string) any {
	return setting{
		XMLName: xml.Name{Space: namespace, Local: "ServerSideEncryptionConfiguration"},
		Inner:   "<Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>" + algorithm + "</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule>",
	}
}
