use strict;
use warnings;
use AnyEvent;
use AnyEvent::Memcached;

my ($host, $port) = @ARGV;
my $client = AnyEvent::Memcached->new(servers => ["$host:$port"], cv => AE::cv);

sub wait_for {
    my ($start) = @_;
    my $done = AE::cv;
    $start->(sub { my ($value, $error) = @_; die $error if $error; $done->send($value) });
    return $done->recv;
}

print "get ", wait_for(sub { $client->get('id', cb => $_[0]) }), "\n" for 1 .. 5;
my $values = wait_for(sub { $client->get(['a', 'b', 'c'], cb => $_[0]) });
print "multi @{[ ref $values eq 'HASH' ? values %$values : map { $_->[1] } @$values ]}\n";
print "get ", wait_for(sub { $client->get('id', cb => $_[0]) }), "\n";
