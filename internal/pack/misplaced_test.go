package pack

import "testing"

// Each name of the table has one place.
func TestPlacesOfProperties(t *testing.T) {
	count := 0
	for place, names := range places {
		for _, name := range names {
			count++
			if got, want := correctPlace(name), " (it belongs under "+place+")"; got != want {
				t.Errorf("belongs(%q) = %q, want %q", name, got, want)
			}
		}
	}
	if count != len(placeOf) {
		t.Errorf("%d names have %d places: a name has two", count, len(placeOf))
	}
	if got := correctPlace("tools"); got != "" {
		t.Errorf(`belongs("tools") = %q: it stands in several places`, got)
	}
}
