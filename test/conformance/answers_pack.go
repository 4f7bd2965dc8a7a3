package main

import (
	"encoding/json"
	"maps"

	"github.com/pawl-dev/pawl/test/conformance/endpoint"
)

type fields = map[string]any

// floristTools are the tools of every case: a florist's.
var floristTools = fields{
	"order":  fields{"flower": fields{"type": "string"}, "count": fields{"type": "integer"}},
	"stock":  fields{"flower": fields{"type": "string"}},
	"card":   fields{"text": fields{"type": "string"}},
	"pay":    fields{"customer": fields{"type": "integer"}, "price": fields{"type": "number"}, "tiny": fields{"type": "number"}},
	"hours":  fields{},
	"photo":  fields{},
	"broken": fields{},
}

// packOf is the pack of a case for one executor: a shop whose model calls the florist's tools and
// leaves by Done with a bill, then says how it went. model is the name of the model that the sidecar
// asks; "": a client of the sidecar does.
func packOf(c *endpoint.Case, lang, model string) (id string, document []byte, err error) {
	tools, names := fields{}, []string{}
	offer := func(name string, properties any) {
		names = append(names, name)
		tools[name] = fields{"name": name, "description": name, "parameters": fields{"type": "object", "properties": properties}}
	}
	for name, properties := range floristTools {
		offer(name, properties)
	}
	for _, name := range c.Tools {
		offer(name, fields{})
	}
	engine := fields{
		"max_pending_steps": 8,
		"retry":             fields{"max_attempts": 2, "initial_sec": 0.01, "max_sec": 0.05, "jitter": 0},
		"model_calls": fields{"timeout_sec": 60, "retry": fields{
			"max_attempts": 4, "initial_sec": 0.01, "max_sec": 5, "multiplier": 1, "jitter": 0,
		}},
	}
	if model != "" {
		engine["models"] = fields{"*": model}
	}
	maps.Copy(engine, c.Engine)
	id = lang + "-" + c.Name
	shop := fields{"system_template": "Sell flowers.", "tools": names}
	if c.Parameters != nil {
		shop["parameters"] = c.Parameters
	}
	if c.Policy != nil {
		shop["tool_policy"] = c.Policy
	}
	pack := fields{
		"prompts": fields{"shop": shop, "report": fields{"system_template": "Say how it went."}},
		"tools":   tools,
		"workflow": fields{
			"entry":  "shop",
			"engine": fields{"x_pawl": engine},
			"states": fields{
				"shop":   fields{"artifacts": fields{"bill": fields{"type": "text/plain"}}, "on_event": fields{"Done": "report"}},
				"report": fields{"terminal": true},
			},
		},
	}
	if err := fillPack(pack, id); err != nil {
		return "", nil, err
	}
	document, err = json.Marshal(pack)
	return id, document, err
}

// toolsOf are the names of the tools of a case.
func toolsOf(c *endpoint.Case) []string {
	names := append([]string{}, c.Tools...)
	for name := range floristTools {
		names = append(names, name)
	}
	return names
}
