package node

import (
	"fmt"
	"slices"
	"strings"

	"sluice/access/sealed"
	"sluice/internal/secretfile"
)

// s3SecretKeyFlag names the file with the master keys of S3 secrets.
const s3SecretKeyFlag = "--s3-secret-key-file"

// noMarks are the marks of a node without master keys.
const noMarks = "none"

// OpenS3Secrets returns the box that seals and opens the keys' S3 secrets, or nil if file is "".
// Its errors name the flag.
func OpenS3Secrets(file string) (*sealed.Box, error) {
	if file == "" {
		return nil, nil
	}
	text, err := secretfile.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s3SecretKeyFlag, err)
	}
	box, err := sealed.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", s3SecretKeyFlag, file, err)
	}
	return box, nil
}

// marksOf returns marks that distinguish a node's master keys from another's.
func marksOf(box *sealed.Box) string {
	if box == nil {
		return noMarks
	}
	return box.Marks()
}

// agreeOnMarks reports whether two nodes can run side by side: one has all master keys that the
// other has. So a key is added, and an old one removed, by restarting one node after the other.
func agreeOnMarks(own, others string) bool {
	a, b := strings.Split(own, ","), strings.Split(others, ",")
	if len(a) > len(b) {
		a, b = b, a
	}
	return !slices.ContainsFunc(a, func(mark string) bool { return !slices.Contains(b, mark) })
}
