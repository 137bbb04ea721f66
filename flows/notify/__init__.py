"""How people are notified: alerts, webhook, automations, artifacts."""
