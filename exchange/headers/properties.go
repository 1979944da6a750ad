package headers

import (
	"slices"
	"strings"
)

// Property returns the property of this name, or "" if there is none. S3's clients state properties
// besides headers, and Fields does not return them. A property has a line in the metadata like a
// header, after those.
func (m Metadata) Property(name string) string {
	for line := range strings.Lines(string(m)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSuffix(value, "\n")
		}
	}
	return ""
}

// WithPropertiesOf returns the metadata with other's properties in place of its own.
func (m Metadata) WithPropertiesOf(other Metadata) Metadata {
	var text strings.Builder
	for line := range strings.Lines(string(m)) {
		if !strings.HasPrefix(line, propertyPrefix) {
			text.WriteString(line)
		}
	}
	for line := range strings.Lines(string(other)) {
		if strings.HasPrefix(line, propertyPrefix) {
			text.WriteString(line)
		}
	}
	return Metadata(text.String())
}

// WithProperty returns the metadata with a property, which replaces the one of that name. The name
// must begin with X-Amz-, and the value must not have line breaks. An empty value is none.
func (m Metadata) WithProperty(name, value string) Metadata {
	lines := slices.DeleteFunc(slices.Collect(strings.Lines(string(m))), func(line string) bool { return strings.HasPrefix(line, name+":") })
	if value != "" {
		lines = append(lines, name+":"+value+"\n")
		slices.Sort(lines)
	}
	return Metadata(strings.Join(lines, ""))
}
