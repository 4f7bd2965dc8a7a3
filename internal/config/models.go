package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// Model is an entry of [Config.ModelsFile].
type Model struct {
	Name string
	// URL is BASE_URL[#MODEL], as in [Config.Models].
	URL string
	// KeyFile is the file with the model's key; "" = the key is in the environment, or there is none.
	KeyFile string
	// At is the position of the entry in the file, for messages about faults.
	At string
}

// modelFields are the allowed fields of a model's entry in the file; url is required.
var modelFields = []string{"key_file", "url"}

// ReadModels reads the file of [Config.ModelsFile], YAML or JSON: NAME: BASE_URL[#MODEL], or NAME: {url, key_file}. It
// keeps the order of the file. Errors: an [*Error] with all faults of the content.
func ReadModels(path string) ([]Model, error) {
	raw, err := readTable("models file", path)
	if err != nil {
		return nil, err
	}
	l := &modelList{priceList{placed{path: path}}}
	root, f := source.Read(raw, fileLimits, func(twice source.DuplicateName) {
		l.at(twice.Line, twice.Col, strings.Join(twice.Path, "."), "is given twice")
	})
	switch {
	case f != nil:
		return nil, &Error{Faults: []Fault{{Field: path, Message: f.Error()}}}
	case root.Kind != source.Object:
		l.at(root.Line, root.Col, "", "want an object of base URLs by model")
	}
	var models []Model
	for i := range root.Members {
		models = append(models, l.model(&root.Members[i]))
	}
	if len(l.list) > 0 {
		return nil, &Error{Faults: l.list}
	}
	return models, nil
}

// modelList collects the faults of one file.
type modelList struct{ priceList }

// model reads one entry.
func (l *modelList) model(m *source.Member) Model {
	at := source.Clip(m.Name, 80)
	out := Model{Name: m.Name, At: fmt.Sprintf("%s:%d:%d: %s", l.path, m.Line, m.Col, at)}
	switch m.Value.Kind {
	case source.String:
		out.URL = m.Value.Text
	case source.Object:
		for i := range m.Value.Members {
			l.field(&out, &m.Value.Members[i], at)
		}
		if m.Value.Get("url") == nil {
			l.at(m.Line, m.Col, at+".url", "is required: BASE_URL[#MODEL]")
		}
	default:
		l.at(m.Line, m.Col, at, "want BASE_URL[#MODEL], or an object of %s", strings.Join(modelFields, ", "))
	}
	return out
}

func (l *modelList) field(out *Model, m *source.Member, at string) {
	field := at + "." + source.Clip(m.Name, 80)
	switch {
	case !slices.Contains(modelFields, m.Name):
		l.unknown(m, field, modelFields)
	case m.Value.Kind != source.String:
		l.at(m.Line, m.Col, field, "want a string")
	case m.Name == "url":
		out.URL = m.Value.Text
	default:
		out.KeyFile = m.Value.Text
	}
}
