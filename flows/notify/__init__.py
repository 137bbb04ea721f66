"""Notification of people: alerts, webhook, artifacts."""
