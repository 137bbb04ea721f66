"""Notification of people: alerts, webhook, metrics."""
