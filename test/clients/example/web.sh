# The web handler of examples/go, built as $WORK/client: five orders.
: >$WORK/log # of an earlier run
LISTEN=$HOST:0 $WORK/client 2>>$WORK/log &
service=$!
trap 'kill $service' EXIT
until url=$(sed -n 's/^orders at //p' $WORK/log) && [ -n "$url" ]; do kill -0 $service; sleep 0.05; done
for i in 1 2 3 4 5; do
  curl -s -S -f -X POST $url >$WORK/order || { cat $WORK/log >&2; exit 1; }
  sed 's/.*"id":"\([0-9]*\)".*/\1/' $WORK/order
done
