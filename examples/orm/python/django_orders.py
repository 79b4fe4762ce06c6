"""Django: the default of the primary key asks for an id."""
import os

import django
from django.conf import settings
from django.db import models

from ids import next_id, next_ids

if not settings.configured:  # what settings.py has
    keys = {"ENGINE": "DB_DRIVER", "HOST": "DB_HOST", "PORT": "DB_PORT", "USER": "DB_USER", "NAME": "DB_NAME"}
    settings.configure(DATABASES={"default": {k: os.environ[v] for k, v in keys.items()}})
    django.setup()


def order_id():  # a function with a name: migrations refer to it
    return next_id("orders")


class Order(models.Model):
    id = models.BigIntegerField(primary_key=True, default=order_id, editable=False)
    item = models.TextField()

    class Meta:
        app_label = "shop"
        db_table = "orders"


def create(item):
    return Order.objects.create(item=item).id


def create_many(items):
    ids = next_ids(len(items), "orders")  # without them bulk_create would ask once for each object
    Order.objects.bulk_create([Order(id=i, item=item) for i, item in zip(ids, items)], batch_size=1000)
