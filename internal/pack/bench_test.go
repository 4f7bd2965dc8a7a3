package pack

import "testing"

func BenchmarkLoad(b *testing.B) {
	for name, src := range examples(b) {
		if name != "rfc0009-1-codegen-agent.yaml" && name != "rfc0009-3-self-correcting.json" {
			continue
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				if p, _, err := Load(src, Options{}); p == nil || err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	p := mustLoad(b, examples(b)["rfc0009-1-codegen-agent.yaml"])
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Compile(Entry{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheckVariables(b *testing.B) {
	p := mustLoad(b, examples(b)["rfc0009-1-codegen-agent.yaml"])
	in := []byte(`{"requirements":"a command line tool that counts words"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, faults, err := p.CheckVariables(Entry{}, in); err != nil || faults != nil {
			b.Fatal(err, faults)
		}
	}
}

func BenchmarkAnalyze(b *testing.B) {
	p := mustLoad(b, examples(b)["rfc0009-4-ops-remediation.yaml"])
	b.ReportAllocs()
	for b.Loop() {
		p.Analyze()
	}
}
