package diagram

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"
	"unicode"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// Sizes of a drawing, in pixels of SVG.
const (
	charWidth  = 7.2
	lineHeight = 16.0
	boxPad     = 12.0
	boxGap     = 48.0
	layerGap   = 72.0
	laneWidth  = 26.0
	margin     = 24.0
)

// drawing is the layout of a diagram as an image. A state is in the layer of its distance from the entry. Each edge that
// does not lead to the next layer has a lane of its own at the right. No layout library is used, because packs have few
// states and these libraries are very large.
type drawing struct {
	d     *Diagram
	ids   map[string]string
	boxes []box
	// at holds the index of each node's box, by the node's identifier.
	at        map[string]int
	layers    [][]int
	right     float64
	bottom    float64
	backEdges int
	out       strings.Builder
}

type box struct {
	layer      int
	order      float64
	x, y, w, h float64
	lines      []string
}

// SVG renders the diagram as one self-contained image. Names appear only as text in it.
func (d *Diagram) SVG() string {
	g := &drawing{d: d, ids: d.numbered(), at: map[string]int{}}
	g.measure()
	g.layer()
	g.order()
	g.place()
	var edges strings.Builder
	for i := range d.Edges {
		edges.WriteString(g.edge(i))
	}
	width := g.right + float64(g.backEdges+1)*laneWidth + margin
	fmt.Fprintf(&g.out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`+"\n",
		width, g.bottom+margin, svgText(d.Pack+" "+d.Version))
	g.out.WriteString(svgStyle)
	g.out.WriteString(edges.String())
	for i := range g.boxes {
		g.box(i)
	}
	g.out.WriteString("</svg>\n")
	return g.out.String()
}

const svgStyle = `<style>
svg{background:#fff;font:12px ui-monospace,monospace;fill:#1c2128}
.n{fill:#f6f8fa;stroke:#57606a}.v{fill:#ddf4ff;stroke:#0969da}.c{fill:#fff8c5;stroke:#9a6700;stroke-width:2.5}
.e{fill:none;stroke:#8c959f}.f{fill:none;stroke:#0969da;stroke-width:2}.d{stroke-dasharray:4 3}
.l{font-size:11px;paint-order:stroke;stroke:#fff;stroke-width:4px;text-anchor:middle}.t{text-anchor:middle}
@media(prefers-color-scheme:dark){svg{background:#0d1117;fill:#e6edf3}.n{fill:#161b22;stroke:#8b949e}.v{fill:#0c2d6b;stroke:#58a6ff}
.c{fill:#4b2900;stroke:#e3b341}.e{stroke:#6e7681}.f{stroke:#58a6ff}.l{stroke:#0d1117}}
</style>
<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>
`

// measure computes the box of each node.
func (g *drawing) measure() {
	for i := range g.d.Nodes {
		n := &g.d.Nodes[i]
		b := box{lines: n.lines(), layer: -1}
		for j, line := range b.lines {
			b.lines[j] = source.Clip(line, 48)
			b.w = max(b.w, float64(len([]rune(b.lines[j])))*charWidth)
		}
		b.w, b.h = b.w+2*boxPad, float64(len(b.lines))*lineHeight+boxPad
		g.at[fmt.Sprintf("n%d", i)] = i
		g.boxes = append(g.boxes, b)
	}
}

// ends returns the boxes of an edge. It returns false if the edge refers to a node that does not exist.
func (g *drawing) ends(i int) (from, to int, ok bool) {
	a, b := g.d.Edges[i].ends(g.ids)
	from, ok1 := g.at[a]
	to, ok2 := g.at[b]
	return from, to, ok1 && ok2
}

// layer computes the distance of each node from the entry. A node that cannot be reached is in the top layer, and the
// nodes that only it leads to are below it.
func (g *drawing) layer() {
	var queue []int
	begin := func(i int) {
		if g.boxes[i].layer < 0 {
			g.boxes[i].layer = 0
			queue = append(queue, i)
		}
	}
	for i := range g.d.Nodes {
		if g.d.Nodes[i].Entry {
			begin(i)
		}
	}
	for next := 0; ; next++ {
		g.spread(&queue)
		if next >= len(g.boxes) {
			break
		}
		begin(next)
	}
	for i := range g.boxes {
		for len(g.layers) <= g.boxes[i].layer {
			g.layers = append(g.layers, nil)
		}
		g.layers[g.boxes[i].layer] = append(g.layers[g.boxes[i].layer], i)
	}
}

func (g *drawing) spread(queue *[]int) {
	for len(*queue) > 0 {
		at := (*queue)[0]
		*queue = (*queue)[1:]
		for i := range g.d.Edges {
			if from, to, ok := g.ends(i); ok && from == at && g.boxes[to].layer < 0 {
				g.boxes[to].layer = g.boxes[at].layer + 1
				*queue = append(*queue, to)
			}
		}
	}
}

// order sorts the boxes of each layer, so that a box is below the boxes that lead to it. It makes a few passes.
func (g *drawing) order() {
	for range 4 {
		for _, layer := range g.layers {
			for place, i := range layer {
				g.boxes[i].order = float64(place)
			}
		}
		// The range begins with the second layer, so depth is the index of the layer above.
		for depth, layer := range g.layers[min(1, len(g.layers)):] {
			for _, i := range layer {
				g.boxes[i].order = g.centre(i, depth)
			}
			slices.SortStableFunc(layer, func(a, b int) int { return cmp.Compare(g.boxes[a].order, g.boxes[b].order) })
		}
	}
}

// centre returns the mean position of those boxes in a layer that lead to box i.
func (g *drawing) centre(i, layer int) float64 {
	sum, n := 0.0, 0.0
	for e := range g.d.Edges {
		if from, to, ok := g.ends(e); ok && to == i && g.boxes[from].layer == layer {
			sum, n = sum+g.boxes[from].order, n+1
		}
	}
	if n == 0 {
		return g.boxes[i].order
	}
	return sum / n
}

// place computes the coordinates of the boxes. Each layer is centred.
func (g *drawing) place() {
	widths := make([]float64, len(g.layers))
	for l, layer := range g.layers {
		for _, i := range layer {
			widths[l] += g.boxes[i].w + boxGap
		}
		g.right = max(g.right, widths[l]-boxGap+2*margin)
	}
	y := margin
	for l, layer := range g.layers {
		x, height := (g.right-widths[l]+boxGap)/2, 0.0
		for _, i := range layer {
			b := &g.boxes[i]
			b.x, b.y = x, y
			x, height = x+b.w+boxGap, max(height, b.h)
		}
		y += height + layerGap
	}
	g.bottom = y - layerGap
}

// box draws the box of the node i: a rectangle with the lines of its text.
func (g *drawing) box(i int) {
	b, n := &g.boxes[i], &g.d.Nodes[i]
	class, radius := "n", 6.0
	switch {
	case n.Current:
		class = "c"
	case n.Visits > 0:
		class = "v"
	}
	if n.Terminal {
		radius = b.h / 2
	}
	fmt.Fprintf(&g.out, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="%.1f"/>`+"\n", class, b.x, b.y, b.w, b.h, radius)
	for j, line := range b.lines {
		fmt.Fprintf(&g.out, `<text class="t" x="%.1f" y="%.1f">%s</text>`+"\n", b.x+b.w/2, b.y+boxPad/2+float64(j+1)*lineHeight-4, svgText(line))
	}
}

// edge draws an edge. An edge to the next layer goes downwards, and every other edge uses a lane.
func (g *drawing) edge(i int) string {
	e := &g.d.Edges[i]
	from, to, ok := g.ends(i)
	if !ok {
		return ""
	}
	class := "e"
	if e.Followed > 0 {
		class = "f"
	}
	if e.Kind != EdgeEvent {
		class += " d"
	}
	path, x, y := g.down(i, from, to)
	if g.boxes[to].layer != g.boxes[from].layer+1 {
		path, x, y = g.around(from, to)
	}
	return fmt.Sprintf(`<path class="%s" marker-end="url(#a)" d="%s"/><text class="l" x="%.1f" y="%.1f">%s</text>`+"\n",
		class, path, x, y, svgText(source.Clip(e.label(), 60)))
}

// down returns the path of an edge from the bottom of one box to the top of another. Edges between the same two boxes
// are drawn side by side.
func (g *drawing) down(i, from, to int) (path string, x, y float64) {
	a, b := &g.boxes[from], &g.boxes[to]
	twin := 0
	for j := range i {
		if f, t, ok := g.ends(j); ok && f == from && t == to {
			twin++
		}
	}
	shift := float64(twin) * 18
	x1, y1, x2, y2 := a.x+a.w/2+shift, a.y+a.h, b.x+b.w/2+shift, b.y
	mid := (y1 + y2) / 2
	return fmt.Sprintf("M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", x1, y1, x1, mid, x2, mid, x2, y2), (x1 + x2) / 2, mid + float64(twin)*13
}

// around returns the path from a box to the lane at the right, along the lane and back to a box.
func (g *drawing) around(from, to int) (path string, x, y float64) {
	a, b := &g.boxes[from], &g.boxes[to]
	g.backEdges++
	lane := g.right + float64(g.backEdges)*laneWidth
	y1, y2 := a.y+a.h*0.65, b.y+b.h*0.35
	return fmt.Sprintf("M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", a.x+a.w, y1, lane, y1, lane, y2, b.x+b.w, y2),
		(a.x+a.w+b.x+b.w)/8 + lane*0.75, (y1 + y2) / 2
}

// svgText returns a text in the form for SVG, without control characters.
func svgText(s string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar || r == 0xFFFE || r == 0xFFFF {
			return ' '
		}
		return r
	}, s))
}
