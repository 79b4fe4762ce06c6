# bash completion of katsubushi; put it into /usr/share/bash-completion/completions/katsubushi
_katsubushi() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=
  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD-2]}
  fi
  case ${before/#--/-} in
    -announce) words='on off' ;;
    -auth-store) words='counters' ;;
    -claim) words='on off' ;;
    -engine) words='auto uring epoll net' ;;
    -how) words='wait new replace repair migrated' ;;
    -layout) words='katsubushi twitter instagram sonyflake js53' ;;
    -log-format) words='text json' ;;
    -log-level) words='debug info warn error fatal panic' ;;
    -peer-check) words='refuse warn off' ;;
    -sequence-start) words='random zero' ;;
    -spin) words='auto off' ;;
    -unknown-keys) words='refuse issue' ;;
    -users) words='counters' ;;
  esac
  if [[ -n $words ]]; then
    :
  elif [[ $word == -* ]]; then
    case ${COMP_WORDS[1]} in
    check-config) words='-admin-bind -admin-port -advertise -announce -auth-file -auth-store -bind -claim -config -counters -counters-password-file -datacenter-id -debug-port -drain-timeout -enable-pprof -enable-stats -engine -epoch -forward-ca -forward-password-file -forward-user -generator -generators -grpc-port -heartbeat -hold-raus -http-bind -http-host -http-port -idle-timeout -lanes -layout -lease -lease-auto-init -log-format -log-level -loops -max-buffer-memory -max-connections -max-run-ahead -max-skew -max-wait -max-worker-id -min-worker-id -name -names -peer-check -port -redis -redis-allow-eviction -redis-password-file -redis-port -redis-replicas -sequence-bits -sequence-start -sequence-wait -shutdown-delay -sock -sock-mode -spin -state-any-disk -state-dir -store -store-ca -store-cert -store-key -store-password-file -time-unit -tls-cert -tls-client-ca -tls-key -udp-port -unknown-keys -users -version -worker-bits -worker-id' ;;
    init) words='-defaults -dir -hosts -ports -sequences -store -tls' ;;
    inspect) words='-epoch -json -layout -sequence-bits -time-unit -worker-bits' ;;
    healthcheck) words='-admin-bind -admin-port -advertise -announce -auth-file -auth-store -bind -claim -config -counters -counters-password-file -datacenter-id -debug-port -drain-timeout -enable-pprof -enable-stats -engine -epoch -forward-ca -forward-password-file -forward-user -generator -generators -grpc-port -heartbeat -hold-raus -http-bind -http-host -http-port -idle-timeout -lanes -layout -lease -lease-auto-init -log-format -log-level -loops -max-buffer-memory -max-connections -max-run-ahead -max-skew -max-wait -max-worker-id -min-worker-id -name -names -peer-check -port -ready -redis -redis-allow-eviction -redis-password-file -redis-port -redis-replicas -sequence-bits -sequence-start -sequence-wait -shutdown-delay -sock -sock-mode -spin -state-any-disk -state-dir -store -store-ca -store-cert -store-key -store-password-file -time-unit -tls-cert -tls-client-ca -tls-key -udp-port -unknown-keys -users -worker-bits -worker-id' ;;
    state) words='-bind -claim -config -force -http-port -json -mark -port -redis -state-any-disk -state-dir -store -worker-id' ;;
    lease) words='-all -config -datacenter-id -epoch -how -json -layout -lease -max-run-ahead -max-skew -max-worker-id -min-worker-id -redis -redis-password-file -sequence-bits -sequence-start -store -store-ca -store-cert -store-key -store-password-file -time-unit -worker-bits' ;;
    name) words='-advertise -counters -counters-password-file -force -forward-ca -forward-password-file -forward-user -generator -generators -json -max-wait -name -names -sequence-wait -state-dir -unknown-keys' ;;
    generator) words='-advertise -counters -counters-password-file -force -forward-ca -forward-password-file -forward-user -generator -generators -json -max-wait -name -names -sequence-wait -state-dir -unknown-keys' ;;
    user) words='-auth-file -auth-store -counters -counters-password-file -force -generate -json -password-file -tls-cert -tls-client-ca -tls-key -users' ;;
    demote) words='-counters -counters-password-file' ;;
    fleet) words='-json -pid' ;;
    upgrade) words='-pid -timeout' ;;
    run) words='-config -delay -epoch -expire -heartbeat -hold-raus -interval -layout -lease -lease-auto-init -log-format -log-level -margin -max -max-skew -max-worker-id -min -min-worker-id -redis -redis-allow-eviction -redis-password-file -redis-replicas -replacement -sequence-bits -server -stop-timeout -store -store-ca -store-cert -store-key -store-password-file -time-unit -worker-bits' ;;
    completion) words='' ;;
    man) words='' ;;
    version) words='' ;;
    help) words='-list' ;;
    *) words='-admin-bind -admin-port -advertise -announce -auth-file -auth-store -bind -claim -config -counters -counters-password-file -datacenter-id -debug-port -drain-timeout -enable-pprof -enable-stats -engine -epoch -forward-ca -forward-password-file -forward-user -generator -generators -grpc-port -heartbeat -hold-raus -http-bind -http-host -http-port -idle-timeout -lanes -layout -lease -lease-auto-init -log-format -log-level -loops -max-buffer-memory -max-connections -max-run-ahead -max-skew -max-wait -max-worker-id -min-worker-id -name -names -peer-check -port -redis -redis-allow-eviction -redis-password-file -redis-port -redis-replicas -sequence-bits -sequence-start -sequence-wait -shutdown-delay -sock -sock-mode -spin -state-any-disk -state-dir -store -store-ca -store-cert -store-key -store-password-file -time-unit -tls-cert -tls-client-ca -tls-key -udp-port -unknown-keys -users -version -worker-bits -worker-id' ;;
    esac
    [[ $word != --* || -z $words ]] || words=-${words// -/ --}
  elif [[ $COMP_CWORD == 1 ]]; then
    words='check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help'
  elif [[ $COMP_CWORD == 2 ]]; then
    case ${COMP_WORDS[1]} in
    state) words='show adopt reset' ;;
    lease) words='init list stats release replicas restored reset-clock' ;;
    name) words='create list show raise adopt replicas retire' ;;
    generator) words='create list show raise adopt replicas retire' ;;
    user) words='add password token grant revoke remove list' ;;
    completion) words='bash zsh fish' ;;
    esac
  elif [[ $COMP_CWORD == 4 ]]; then
    case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in
    'name create') words='sequence' ;;
    'generator create') words='sequence' ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _katsubushi katsubushi
