package diagram

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
)

// TestSVGOfEveryPack: well-formed, every node and edge in it, boxes apart, names
// nothing but text, the run's marks drawn.
func TestSVGOfEveryPack(t *testing.T) {
	t.Parallel()
	packs := map[string]*Diagram{}
	for _, file := range []string{"rfc0005-3-orchestrated-agent.json", "rfc0009-3-self-correcting.json", "rfc0011-1-security-review.yaml"} {
		packs[file] = Of(loadFile(t, "../../testdata/packs/"+file))
	}
	packs["bad names"] = &Diagram{Pack: `"><script>`, Nodes: []Node{
		{ID: "</text><script>alert(1)</script>", Kind: NodeState, Entry: true}, {ID: "b\x00\x1b", Kind: NodeState},
	}, Edges: []Edge{
		{From: "</text><script>alert(1)</script>", To: "b\x00\x1b", Kind: EdgeEvent, Event: `"/><a href="x">`},
		{From: "b\x00\x1b", To: "b\x00\x1b", Kind: EdgeEvent, Event: "Self"}, {From: "b\x00\x1b", To: "ghost", Kind: EdgeEvent, Event: "No"},
	}}
	packs["none"] = &Diagram{}
	for name, d := range packs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if len(d.Nodes) > 0 {
				d.Mark(Marks{Visits: map[string]int64{d.Nodes[0].ID: 3}, Current: d.Nodes[0].ID})
			}
			checkSVG(t, d)
		})
	}
}

type rect struct{ x, y, w, h float64 }

func checkSVG(t *testing.T, d *Diagram) {
	t.Helper()
	text := d.SVG()
	var boxes []rect
	current, paths := 0, 0
	for dec := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		switch start.Name.Local {
		case "rect":
			if attr(start, "class") == "c" {
				current++
			}
			boxes = append(boxes, rect{num(t, start, "x"), num(t, start, "y"), num(t, start, "width"), num(t, start, "height")})
		case "path":
			paths++
		case "svg", "style", "defs", "marker", "text":
		default:
			t.Errorf("element %s", start.Name.Local)
		}
	}
	drawn := len(d.Edges)
	for _, e := range d.Edges {
		if e.To == "ghost" {
			drawn--
		}
	}
	if len(boxes) != len(d.Nodes) || paths != drawn+1 || current != min(1, len(d.Nodes)) {
		t.Fatalf("%d boxes, %d paths, %d current of %d nodes, %d edges", len(boxes), paths, current, len(d.Nodes), drawn)
	}
	for i, a := range boxes {
		for _, b := range boxes[:i] {
			if math.Max(a.x, b.x) < math.Min(a.x+a.w, b.x+b.w) && math.Max(a.y, b.y) < math.Min(a.y+a.h, b.y+b.h) {
				t.Errorf("boxes %v and %v overlap", a, b)
			}
		}
	}
	if text != d.SVG() {
		t.Error("two drawings differ")
	}
}

func attr(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func num(t *testing.T, e xml.StartElement, name string) (n float64) {
	t.Helper()
	if _, err := fmt.Sscan(attr(e, name), &n); err != nil {
		t.Fatalf("%s of %s: %v", name, e.Name.Local, err)
	}
	return n
}
