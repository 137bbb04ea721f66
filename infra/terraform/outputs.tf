output "audit_role_arn" {
  description = "For infra/kubernetes/aws."
  value       = aws_iam_role.audit.arn
}

output "lake" {
  description = "For privaudit.toml."
  value       = "s3://${var.lake_bucket}/${var.lake_prefix}"
}

output "warehouse" {
  description = "For privaudit.toml."
  value       = "s3://${var.audit_bucket}/${var.warehouse_prefix}"
}
