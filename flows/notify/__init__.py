"""Notification of people: alerts, webhook, automations, artifacts."""
