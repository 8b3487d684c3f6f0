package ports

import "strings"

// traceparentLength is that of a W3C trace context in the one form that is known.
const traceparentLength = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")

// IsTraceparent reports whether text is a W3C trace context of the known form: version, trace id, parent
// id and flags, in lower-case hexadecimal digits, of which neither id is all zeros. Whatever else bears
// the name is to be passed over, as if nothing were there.
func IsTraceparent(text string) bool {
	if len(text) != traceparentLength {
		return false
	}
	parts := strings.Split(text, "-")
	if len(parts) != 4 || len(parts[0]) != 2 || parts[0] == "ff" || len(parts[1]) != 32 || len(parts[2]) != 16 {
		return false
	}
	for _, part := range parts {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return false
		}
	}
	return strings.Trim(parts[1], "0") != "" && strings.Trim(parts[2], "0") != ""
}
