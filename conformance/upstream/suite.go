// Package upstream keeps what Knative's end-to-end tests need among the requirements of this module:
// "go mod tidy" does not look into the tests of other modules.
package upstream

import (
	_ "knative.dev/eventing/test/rekt/features/broker"
	_ "knative.dev/eventing/test/rekt/resources/integrationsink"
	_ "knative.dev/eventing/test/rekt/resources/integrationsource"
	_ "knative.dev/reconciler-test/pkg/environment"
)
