use strict;
use warnings;
use Cache::Memcached::libmemcached;

my ($host, $port, $protocol) = @ARGV;
my $client = Cache::Memcached::libmemcached->new({
    servers         => ["$host:$port"],
    binary_protocol => $protocol eq 'binary',
});
print "get ", $client->get('id'), "\n" for 1 .. 5;
print "multi @{[ values %{ $client->get_multi('a', 'b', 'c') } ]}\n";
my $stats = $client->stats->{hosts}{"$host:$port"}{misc};
print "version $stats->{version}\n";
print "stat $_ $stats->{$_}\n" for keys %$stats;
print "get ", $client->get('id'), "\n";
