package telemetry

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Readiness adds pawl_ready and pawl_ready_changed_timestamp_seconds. Each scrape calls read, which
// returns what the health service reports, and the time since which it reports this. A nil Metrics
// adds nothing.
func (m *Metrics) Readiness(read func() (ready bool, since time.Time)) {
	if m == nil {
		return
	}
	m.gaugeFunc("pawl_ready", "1 while the health service reports SERVING, otherwise 0.", func() float64 {
		if ready, _ := read(); ready {
			return 1
		}
		return 0
	})
	m.gaugeFunc("pawl_ready_changed_timestamp_seconds", "Time of the last change of pawl_ready, in seconds since 1970.", func() float64 {
		_, since := read()
		return seconds(since)
	})
}

// Certificate adds pawl_certificate_expiry_timestamp_seconds. Each scrape calls expires, because the
// certificate may be read again. A nil Metrics does not add it.
func (m *Metrics) Certificate(expires func() time.Time) {
	if m != nil {
		m.gaugeFunc("pawl_certificate_expiry_timestamp_seconds", "End of the validity of the server's certificate, in seconds since 1970.", func() float64 { return seconds(expires()) })
	}
}

// Disk adds pawl_store_free_bytes and pawl_store_min_free_bytes of a store in a directory. Each scrape calls
// space, which returns the free space and the space below which new work is refused, in bytes. If the free
// space cannot be read, pawl_store_free_bytes is NaN. A nil Metrics does not add it.
func (m *Metrics) Disk(space func() (free, least int64, err error)) {
	if m == nil {
		return
	}
	m.gaugeFunc("pawl_store_free_bytes", "Free space of the data directory's file system.", func() float64 {
		free, _, err := space()
		if err != nil {
			return math.NaN()
		}
		return float64(free)
	})
	m.gaugeFunc("pawl_store_min_free_bytes", "Free space below which new work is refused with DISK_LOW.", func() float64 {
		_, least, _ := space()
		return float64(least)
	})
}

// build adds pawl_build_info, whose value is always 1.
func (m *Metrics) build(version string) {
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "pawl_build_info", Help: "Always 1, with the version of the sidecar.", ConstLabels: prometheus.Labels{"version": version}})
	info.Set(1)
	m.registry.MustRegister(info)
}

func (m *Metrics) gaugeFunc(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
