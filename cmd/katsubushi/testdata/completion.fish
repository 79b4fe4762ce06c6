# fish completion of katsubushi; put it into ~/.config/fish/completions/katsubushi.fish
complete -c katsubushi -n __fish_use_subcommand -a check-config -d 'report everything that is wrong with the settings, and do not serve'
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o admin-bind -l admin-bind
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o admin-port -l admin-port
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o advertise -l advertise
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o announce -l announce -xa 'on off'
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o auth-file -l auth-file
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o auth-store -l auth-store -xa 'counters'
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o bind -l bind
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o claim -l claim -xa 'on off'
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o config -l config
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o counters -l counters
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o counters-password-file -l counters-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o datacenter-id -l datacenter-id
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o debug-port -l debug-port
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o drain-timeout -l drain-timeout
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o enable-pprof -l enable-pprof
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o enable-stats -l enable-stats
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o engine -l engine -xa 'auto uring epoll net'
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o epoch -l epoch
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o forward-ca -l forward-ca
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o forward-password-file -l forward-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o forward-user -l forward-user
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o generator -l generator
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o generators -l generators
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o grpc-port -l grpc-port
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o heartbeat -l heartbeat
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o hold-raus -l hold-raus
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o http-bind -l http-bind
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o http-host -l http-host
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o http-port -l http-port
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o idle-timeout -l idle-timeout
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o lanes -l lanes
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o layout -l layout -xa 'katsubushi twitter instagram sonyflake js53'
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o lease -l lease
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o lease-auto-init -l lease-auto-init
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o log-format -l log-format -xa 'text json'
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o log-level -l log-level -xa 'debug info warn error fatal panic'
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o loops -l loops
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o max-buffer-memory -l max-buffer-memory
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o max-connections -l max-connections
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o max-run-ahead -l max-run-ahead
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o max-skew -l max-skew
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o max-wait -l max-wait
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o max-worker-id -l max-worker-id
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o min-worker-id -l min-worker-id
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o name -l name
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o names -l names
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o peer-check -l peer-check -xa 'refuse warn off'
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o port -l port
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o redis -l redis
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o redis-allow-eviction -l redis-allow-eviction
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o redis-password-file -l redis-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o redis-port -l redis-port
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o redis-replicas -l redis-replicas
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o sequence-bits -l sequence-bits
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o sequence-start -l sequence-start -xa 'random zero'
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o sequence-wait -l sequence-wait
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o shutdown-delay -l shutdown-delay
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o sock -l sock
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o sock-mode -l sock-mode
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o spin -l spin -xa 'auto off'
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o state-any-disk -l state-any-disk
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o state-dir -l state-dir
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o store -l store
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o store-ca -l store-ca
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o store-cert -l store-cert
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o store-key -l store-key
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o store-password-file -l store-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o time-unit -l time-unit
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o tls-cert -l tls-cert
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o tls-client-ca -l tls-client-ca
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o tls-key -l tls-key
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o udp-port -l udp-port
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o unknown-keys -l unknown-keys -xa 'refuse issue'
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o users -l users -xa 'counters'
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o version -l version
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o worker-bits -l worker-bits
complete -c katsubushi -n '__fish_seen_subcommand_from check-config' -o worker-id -l worker-id
complete -c katsubushi -n __fish_use_subcommand -a init -d 'ask five questions, and write the files that configure daemons'
complete -c katsubushi -n '__fish_seen_subcommand_from init' -o defaults -l defaults
complete -c katsubushi -n '__fish_seen_subcommand_from init' -o dir -l dir
complete -c katsubushi -n '__fish_seen_subcommand_from init' -o hosts -l hosts
complete -c katsubushi -n '__fish_seen_subcommand_from init' -o ports -l ports
complete -c katsubushi -n '__fish_seen_subcommand_from init' -o sequences -l sequences
complete -c katsubushi -n '__fish_seen_subcommand_from init' -o store -l store
complete -c katsubushi -n '__fish_seen_subcommand_from init' -o tls -l tls
complete -c katsubushi -n __fish_use_subcommand -a inspect -d 'show the parts of ids'
complete -c katsubushi -n '__fish_seen_subcommand_from inspect' -o epoch -l epoch
complete -c katsubushi -n '__fish_seen_subcommand_from inspect' -o json -l json
complete -c katsubushi -n '__fish_seen_subcommand_from inspect' -o layout -l layout -xa 'katsubushi twitter instagram sonyflake js53'
complete -c katsubushi -n '__fish_seen_subcommand_from inspect' -o sequence-bits -l sequence-bits
complete -c katsubushi -n '__fish_seen_subcommand_from inspect' -o time-unit -l time-unit
complete -c katsubushi -n '__fish_seen_subcommand_from inspect' -o worker-bits -l worker-bits
complete -c katsubushi -n __fish_use_subcommand -a healthcheck -d 'ask the daemon on this host whether it is alive (or issues ids)'
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o admin-bind -l admin-bind
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o admin-port -l admin-port
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o advertise -l advertise
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o announce -l announce -xa 'on off'
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o auth-file -l auth-file
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o auth-store -l auth-store -xa 'counters'
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o bind -l bind
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o claim -l claim -xa 'on off'
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o config -l config
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o counters -l counters
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o counters-password-file -l counters-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o datacenter-id -l datacenter-id
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o debug-port -l debug-port
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o drain-timeout -l drain-timeout
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o enable-pprof -l enable-pprof
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o enable-stats -l enable-stats
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o engine -l engine -xa 'auto uring epoll net'
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o epoch -l epoch
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o forward-ca -l forward-ca
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o forward-password-file -l forward-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o forward-user -l forward-user
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o generator -l generator
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o generators -l generators
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o grpc-port -l grpc-port
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o heartbeat -l heartbeat
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o hold-raus -l hold-raus
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o http-bind -l http-bind
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o http-host -l http-host
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o http-port -l http-port
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o idle-timeout -l idle-timeout
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o lanes -l lanes
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o layout -l layout -xa 'katsubushi twitter instagram sonyflake js53'
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o lease -l lease
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o lease-auto-init -l lease-auto-init
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o log-format -l log-format -xa 'text json'
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o log-level -l log-level -xa 'debug info warn error fatal panic'
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o loops -l loops
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o max-buffer-memory -l max-buffer-memory
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o max-connections -l max-connections
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o max-run-ahead -l max-run-ahead
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o max-skew -l max-skew
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o max-wait -l max-wait
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o max-worker-id -l max-worker-id
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o min-worker-id -l min-worker-id
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o name -l name
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o names -l names
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o peer-check -l peer-check -xa 'refuse warn off'
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o port -l port
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o ready -l ready
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o redis -l redis
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o redis-allow-eviction -l redis-allow-eviction
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o redis-password-file -l redis-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o redis-port -l redis-port
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o redis-replicas -l redis-replicas
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o sequence-bits -l sequence-bits
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o sequence-start -l sequence-start -xa 'random zero'
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o sequence-wait -l sequence-wait
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o shutdown-delay -l shutdown-delay
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o sock -l sock
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o sock-mode -l sock-mode
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o spin -l spin -xa 'auto off'
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o state-any-disk -l state-any-disk
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o state-dir -l state-dir
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o store -l store
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o store-ca -l store-ca
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o store-cert -l store-cert
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o store-key -l store-key
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o store-password-file -l store-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o time-unit -l time-unit
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o tls-cert -l tls-cert
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o tls-client-ca -l tls-client-ca
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o tls-key -l tls-key
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o udp-port -l udp-port
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o unknown-keys -l unknown-keys -xa 'refuse issue'
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o users -l users -xa 'counters'
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o worker-bits -l worker-bits
complete -c katsubushi -n '__fish_seen_subcommand_from healthcheck' -o worker-id -l worker-id
complete -c katsubushi -n __fish_use_subcommand -a state -d 'inspect and repair the files that record windows'
complete -c katsubushi -n '__fish_seen_subcommand_from state' -a 'show adopt reset'
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o bind -l bind
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o claim -l claim -xa 'on off'
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o config -l config
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o force -l force
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o http-port -l http-port
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o json -l json
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o mark -l mark
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o port -l port
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o redis -l redis
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o state-any-disk -l state-any-disk
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o state-dir -l state-dir
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o store -l store
complete -c katsubushi -n '__fish_seen_subcommand_from state' -o worker-id -l worker-id
complete -c katsubushi -n __fish_use_subcommand -a lease -d 'inspect and repair a pool of worker ids in a store'
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -a 'init list stats release replicas restored reset-clock'
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o all -l all
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o config -l config
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o datacenter-id -l datacenter-id
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o epoch -l epoch
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o how -l how -xa 'wait new replace repair migrated'
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o json -l json
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o layout -l layout -xa 'katsubushi twitter instagram sonyflake js53'
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o lease -l lease
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o max-run-ahead -l max-run-ahead
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o max-skew -l max-skew
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o max-worker-id -l max-worker-id
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o min-worker-id -l min-worker-id
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o redis -l redis
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o redis-password-file -l redis-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o sequence-bits -l sequence-bits
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o sequence-start -l sequence-start -xa 'random zero'
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o store -l store
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o store-ca -l store-ca
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o store-cert -l store-cert
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o store-key -l store-key
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o store-password-file -l store-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o time-unit -l time-unit
complete -c katsubushi -n '__fish_seen_subcommand_from lease' -o worker-bits -l worker-bits
complete -c katsubushi -n __fish_use_subcommand -a name -d 'manage sequences'
complete -c katsubushi -n '__fish_seen_subcommand_from name' -a 'create list show raise adopt replicas retire'
complete -c katsubushi -n '__fish_seen_subcommand_from name; and __fish_seen_subcommand_from create' -a 'sequence'
complete -c katsubushi -n '__fish_seen_subcommand_from name' -o advertise -l advertise
complete -c katsubushi -n '__fish_seen_subcommand_from name' -o counters -l counters
complete -c katsubushi -n '__fish_seen_subcommand_from name' -o counters-password-file -l counters-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from name' -o force -l force
complete -c katsubushi -n '__fish_seen_subcommand_from name' -o forward-ca -l forward-ca
complete -c katsubushi -n '__fish_seen_subcommand_from name' -o forward-password-file -l forward-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from name' -o forward-user -l forward-user
complete -c katsubushi -n '__fish_seen_subcommand_from name' -o generator -l generator
complete -c katsubushi -n '__fish_seen_subcommand_from name' -o generators -l generators
complete -c katsubushi -n '__fish_seen_subcommand_from name' -o json -l json
complete -c katsubushi -n '__fish_seen_subcommand_from name' -o max-wait -l max-wait
complete -c katsubushi -n '__fish_seen_subcommand_from name' -o name -l name
complete -c katsubushi -n '__fish_seen_subcommand_from name' -o names -l names
complete -c katsubushi -n '__fish_seen_subcommand_from name' -o sequence-wait -l sequence-wait
complete -c katsubushi -n '__fish_seen_subcommand_from name' -o state-dir -l state-dir
complete -c katsubushi -n '__fish_seen_subcommand_from name' -o unknown-keys -l unknown-keys -xa 'refuse issue'
complete -c katsubushi -n __fish_use_subcommand -a generator -d 'the older word for name'
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -a 'create list show raise adopt replicas retire'
complete -c katsubushi -n '__fish_seen_subcommand_from generator; and __fish_seen_subcommand_from create' -a 'sequence'
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o advertise -l advertise
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o counters -l counters
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o counters-password-file -l counters-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o force -l force
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o forward-ca -l forward-ca
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o forward-password-file -l forward-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o forward-user -l forward-user
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o generator -l generator
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o generators -l generators
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o json -l json
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o max-wait -l max-wait
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o name -l name
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o names -l names
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o sequence-wait -l sequence-wait
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o state-dir -l state-dir
complete -c katsubushi -n '__fish_seen_subcommand_from generator' -o unknown-keys -l unknown-keys -xa 'refuse issue'
complete -c katsubushi -n __fish_use_subcommand -a user -d 'manage users'
complete -c katsubushi -n '__fish_seen_subcommand_from user' -a 'add password token grant revoke remove list'
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o auth-file -l auth-file
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o auth-store -l auth-store -xa 'counters'
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o counters -l counters
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o counters-password-file -l counters-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o force -l force
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o generate -l generate
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o json -l json
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o password-file -l password-file
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o tls-cert -l tls-cert
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o tls-client-ca -l tls-client-ca
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o tls-key -l tls-key
complete -c katsubushi -n '__fish_seen_subcommand_from user' -o users -l users -xa 'counters'
complete -c katsubushi -n __fish_use_subcommand -a demote -d 'hand sequences in strict order over to another daemon'
complete -c katsubushi -n '__fish_seen_subcommand_from demote' -o counters -l counters
complete -c katsubushi -n '__fish_seen_subcommand_from demote' -o counters-password-file -l counters-password-file
complete -c katsubushi -n __fish_use_subcommand -a fleet -d 'list the daemons that announce themselves, with their statistics'
complete -c katsubushi -n '__fish_seen_subcommand_from fleet' -o json -l json
complete -c katsubushi -n '__fish_seen_subcommand_from fleet' -o pid -l pid
complete -c katsubushi -n __fish_use_subcommand -a upgrade -d 'replace a running daemon with the installed program, without interruption'
complete -c katsubushi -n '__fish_seen_subcommand_from upgrade' -o pid -l pid
complete -c katsubushi -n '__fish_seen_subcommand_from upgrade' -o timeout -l timeout
complete -c katsubushi -n __fish_use_subcommand -a run -d 'lease a worker id for another program, and run it'
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o config -l config
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o delay -l delay
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o epoch -l epoch
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o expire -l expire
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o heartbeat -l heartbeat
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o hold-raus -l hold-raus
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o interval -l interval
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o layout -l layout -xa 'katsubushi twitter instagram sonyflake js53'
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o lease -l lease
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o lease-auto-init -l lease-auto-init
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o log-format -l log-format -xa 'text json'
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o log-level -l log-level -xa 'debug info warn error fatal panic'
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o margin -l margin
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o max -l max
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o max-skew -l max-skew
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o max-worker-id -l max-worker-id
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o min -l min
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o min-worker-id -l min-worker-id
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o redis -l redis
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o redis-allow-eviction -l redis-allow-eviction
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o redis-password-file -l redis-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o redis-replicas -l redis-replicas
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o replacement -l replacement
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o sequence-bits -l sequence-bits
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o server -l server
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o stop-timeout -l stop-timeout
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o store -l store
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o store-ca -l store-ca
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o store-cert -l store-cert
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o store-key -l store-key
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o store-password-file -l store-password-file
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o time-unit -l time-unit
complete -c katsubushi -n '__fish_seen_subcommand_from run' -o worker-bits -l worker-bits
complete -c katsubushi -n __fish_use_subcommand -a completion -d 'print the completion script for a shell'
complete -c katsubushi -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'
complete -c katsubushi -n __fish_use_subcommand -a man -d 'print the manual page'
complete -c katsubushi -n __fish_use_subcommand -a version -d 'print what -version prints'
complete -c katsubushi -n __fish_use_subcommand -a help -d 'print this, or the help of a verb'
complete -c katsubushi -n '__fish_seen_subcommand_from help' -o list -l list
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o admin-bind -l admin-bind
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o admin-port -l admin-port
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o advertise -l advertise
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o announce -l announce -xa 'on off'
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o auth-file -l auth-file
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o auth-store -l auth-store -xa 'counters'
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o bind -l bind
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o claim -l claim -xa 'on off'
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o config -l config
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o counters -l counters
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o counters-password-file -l counters-password-file
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o datacenter-id -l datacenter-id
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o debug-port -l debug-port
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o drain-timeout -l drain-timeout
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o enable-pprof -l enable-pprof
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o enable-stats -l enable-stats
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o engine -l engine -xa 'auto uring epoll net'
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o epoch -l epoch
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o forward-ca -l forward-ca
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o forward-password-file -l forward-password-file
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o forward-user -l forward-user
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o generator -l generator
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o generators -l generators
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o grpc-port -l grpc-port
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o heartbeat -l heartbeat
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o hold-raus -l hold-raus
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o http-bind -l http-bind
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o http-host -l http-host
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o http-port -l http-port
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o idle-timeout -l idle-timeout
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o lanes -l lanes
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o layout -l layout -xa 'katsubushi twitter instagram sonyflake js53'
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o lease -l lease
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o lease-auto-init -l lease-auto-init
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o log-format -l log-format -xa 'text json'
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o log-level -l log-level -xa 'debug info warn error fatal panic'
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o loops -l loops
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o max-buffer-memory -l max-buffer-memory
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o max-connections -l max-connections
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o max-run-ahead -l max-run-ahead
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o max-skew -l max-skew
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o max-wait -l max-wait
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o max-worker-id -l max-worker-id
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o min-worker-id -l min-worker-id
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o name -l name
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o names -l names
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o peer-check -l peer-check -xa 'refuse warn off'
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o port -l port
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o redis -l redis
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o redis-allow-eviction -l redis-allow-eviction
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o redis-password-file -l redis-password-file
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o redis-port -l redis-port
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o redis-replicas -l redis-replicas
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o sequence-bits -l sequence-bits
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o sequence-start -l sequence-start -xa 'random zero'
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o sequence-wait -l sequence-wait
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o shutdown-delay -l shutdown-delay
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o sock -l sock
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o sock-mode -l sock-mode
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o spin -l spin -xa 'auto off'
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o state-any-disk -l state-any-disk
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o state-dir -l state-dir
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o store -l store
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o store-ca -l store-ca
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o store-cert -l store-cert
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o store-key -l store-key
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o store-password-file -l store-password-file
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o time-unit -l time-unit
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o tls-cert -l tls-cert
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o tls-client-ca -l tls-client-ca
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o tls-key -l tls-key
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o udp-port -l udp-port
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o unknown-keys -l unknown-keys -xa 'refuse issue'
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o users -l users -xa 'counters'
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o version -l version
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o worker-bits -l worker-bits
complete -c katsubushi -n 'not __fish_seen_subcommand_from check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help' -o worker-id -l worker-id
