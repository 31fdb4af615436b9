#!/bin/sh
# `executor`: an executor of Spark's on Kubernetes, told by the driver through SPARK_* variables. All else: penstock.
set -eu

if [ "${1:-}" != "executor" ]; then
    exec penstock "$@"
fi
shift

# Spark numbers the options of the executor's JVM: SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, …
options=$(mktemp)
env | sed -n 's/^SPARK_JAVA_OPT_\([0-9]*\)=\(.*\)$/\1 \2/p' | sort -n | cut -d' ' -f2- >"$options"
set --
while IFS= read -r option; do
    set -- "$@" "$option"
done <"$options"
rm -f "$options"

exec "$JAVA_HOME/bin/java" "$@" \
    "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CLASSPATH:-}:$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
